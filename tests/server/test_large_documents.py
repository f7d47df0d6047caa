"""Documents of a megabyte on ways that few requests take: no turn of the event loop is long for them.

The common ways of large objects are attacked in `tests/hostile/test_large_objects.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

import pytest

from tests.hostile.support import longest_turn
from tests.support.api import Api
from tests.support.server_process import ServerProcess

# Of the loop's thread.
TURN_S: Final = 0.05
CORE: Final = "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("large") / "data", "--controllers=") as server:
        yield server


@pytest.fixture(scope="module")
def api(server: ServerProcess) -> Iterator[Api]:
    with closing(Api(server)) as api:
        yield api


def requires_short_turns(api: Api, ask: Callable[[], object]) -> None:
    with longest_turn(api) as turn:
        ask()
    assert turn.thread_cpu_s <= TURN_S


def test_a_token_for_many_audiences(api: Api) -> None:
    """Their number has no bound of its own, as in kube-apiserver: documents have one for their values."""
    api.post(f"{CORE}/serviceaccounts", {"metadata": {"name": "a"}}).ok()
    spec = {"audiences": [f"{number}" for number in range(249_000)], "expirationSeconds": 3600}

    def ask() -> None:
        answer = api.post(f"{CORE}/serviceaccounts/a/token", {"spec": spec}).ok()
        assert answer["spec"]["audiences"] == spec["audiences"]

    requires_short_turns(api, ask)
