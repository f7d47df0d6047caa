"""`apiserver deprecations` asks all workers of a server, and believes none that cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from apiserver.cli import deprecations
from apiserver.cli.api_client import RequestFailed, user_agent
from apiserver.cli.flag_values import WORKERS_MAX
from tests.support.json_server import Ask, asking

NONE: Final = {"release": "1.36", "since": "2026-11-27T00:00:00Z", "requests": []}


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Runs the command on a server that answers so, and returns what it prints."""
    with asking(deprecations.run, tmp_path_factory.mktemp("server")) as ask:
        yield partial(ask, arguments=["-o", "json"])


def test_calls_of_these_commands_are_left_out(ask: Ask) -> None:
    """They ask for what the server has; no program has to be changed."""
    row = {"group": "g", "version": "v1", "resource": "r", "count": 1, "lastSeen": "2026-01-01T00:00:00Z"}
    row |= {"user": "u", "removedRelease": "1.37"}
    agents = ("old-operator/1.0", user_agent("deprecations"), user_agent("storage rewrite"))
    answer = {**NONE, "requests": [{**row, "userAgent": each} for each in agents]}
    shown = json.loads(ask(answer))["requests"]
    assert [each["userAgent"] for each in shown] == ["old-operator/1.0"]


BELIEVED: Final = {
    "nothing is said of workers": [NONE],
    "one": [{**NONE, "workers": 1, "worker": "a"}],
    "two": [{**NONE, "workers": 2, "worker": "a"}, {**NONE, "workers": 2, "worker": "b"}],
}


@pytest.mark.parametrize("documents", BELIEVED.values(), ids=BELIEVED)
def test_what_workers_say_together(ask: Ask, documents: list[Any]) -> None:
    assert json.loads(ask(*documents)) == NONE


UNBELIEVABLE: Final[dict[str, tuple[Any, str]]] = {
    "less than none": (-3, f": workers: -3 is not a number from 1 to {WORKERS_MAX}"),
    "none": (0, f": workers: 0 is not a number from 1 to {WORKERS_MAX}"),
    "more than there can be": (65, f": workers: 65 is not a number from 1 to {WORKERS_MAX}"),
    "very many": (10**18, f": workers: {10**18} is not a number from 1 to {WORKERS_MAX}"),
    "one and a half": (1.5, f": workers: 1.5 is not a number from 1 to {WORKERS_MAX}"),
    "yes": (True, f": workers: True is not a number from 1 to {WORKERS_MAX}"),
    "nothing": (None, f": workers: None is not a number from 1 to {WORKERS_MAX}"),
    "a word": ("two", f": workers: two is not a number from 1 to {WORKERS_MAX}"),
}


@pytest.mark.parametrize(("workers", "why"), UNBELIEVABLE.values(), ids=UNBELIEVABLE)
def test_numbers_of_workers_that_cannot_be(ask: Ask, workers: Any, why: str) -> None:
    with pytest.raises(RequestFailed) as refused:
        ask({**NONE, "workers": workers, "worker": "a"})
    assert str(refused.value) == (f"the server's response to {deprecations.PATH} is not valid{why}")


@pytest.mark.parametrize("worker", [[], {}, 7, None])
def test_workers_whose_name_is_none(ask: Ask, worker: Any) -> None:
    with pytest.raises(RequestFailed, match=r"is not valid$"):
        ask({**NONE, "workers": 1, "worker": worker})
