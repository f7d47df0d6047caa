"""Whoever fills a namespace with objects that others are checked against holds up nobody."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from tests.hostile.support import longest_turn
from tests.support.api import Api
from tests.support.objects import pod
from tests.support.server_process import ServerProcess

TURN_MAX_S: Final = 0.05
OBJECTS: Final = 2_500
WRITERS: Final = 4
DEFAULT: Final = "/namespaces/default"
LIMITS: Final = [
    {"type": "Container", "default": {f"example.com/r{n}": "1" for n in range(20)}, "max": {"cpu": "8"}}
]
KINDS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "limit ranges": (f"/api/v1{DEFAULT}/limitranges", {"spec": {"limits": LIMITS}}),
    "quotas": (
        f"/api/v1{DEFAULT}/resourcequotas",
        {"spec": {"hard": {"pods": "100000"}, "scopes": ["BestEffort"]}},
    ),
    "disruption budgets": (
        f"/apis/policy/v1{DEFAULT}/poddisruptionbudgets",
        {"spec": {"minAvailable": 1, "selector": {"matchLabels": {f"k{n}": "v" for n in range(20)}}}},
    ),
}


def fill(server: ServerProcess, path: str, body: dict[str, Any]) -> None:
    def write(first: int) -> None:
        with Api(server) as api:
            for n in range(first, OBJECTS, WRITERS):
                api.post(path, {"metadata": {"name": f"a{n}"}, **body}).ok()

    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(write, range(WRITERS)))


@pytest.fixture(params=list(KINDS.values()), ids=list(KINDS))
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A client of a server with a full namespace."""
    directory = tmp_path_factory.mktemp("walks")
    # Each quota that is created is checked against all others: that is not what is measured.
    with ServerProcess(directory / "data", "--disable-admission-plugins=ResourceQuota") as server:
        fill(server, *request.param)
    with ServerProcess(directory / "data") as server, Api(server) as api:
        yield api


@pytest.mark.slow
def test_pods_are_checked_against_many_objects(api: Api) -> None:
    pods = f"/api/v1{DEFAULT}/pods"
    with longest_turn(api) as turn:
        for n in range(3):
            api.post(pods, pod(f"p{n}")).ok()
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": f"p{n}"}}
            api.post(f"{pods}/p{n}/eviction", eviction).ok()
    assert turn.thread_cpu_s <= TURN_MAX_S
