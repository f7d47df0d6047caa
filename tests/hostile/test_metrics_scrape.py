"""A scrape of /metrics holds up nobody, however many resources have series, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.hostile.support import longest_turn
from tests.support.api import Api, until_status
from tests.support.definitions import DEFINITIONS, definition
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

# How many definitions there are.
SIZES: Final = [
    pytest.param(50, id="50"),
    pytest.param(1_000, id="1000", marks=(pytest.mark.slow, pytest.mark.longest)),
]
SCRAPES: Final = 5
USERS: Final = 200
# One list of everything, or one garbage collection, may fall into it.
TURN_S: Final = 0.02
# The calmest of them counts: whatever the machine does besides makes a turn longer, never shorter.
PERIODS: Final = 3


def group_of(number: int) -> str:
    return f"g{number % 50}.example.com"


def define(api: Api, number: int) -> str:
    """Create a definition. Returns its name."""
    made = definition(group_of(number), plural=f"things{number}", kind=f"Thing{number}")
    return str(api.post(DEFINITIONS, made).ok()["metadata"]["name"])


def use(api: Api, number: int) -> None:
    """Use a resource with every verb, each time as another user."""
    path = f"/apis/{group_of(number)}/v1/namespaces/default/things{number}"
    document = {"apiVersion": f"{group_of(number)}/v1", "kind": f"Thing{number}", "metadata": {"name": "a"}}
    until_status(200, lambda: api.get(path), f"{path} is served")
    as_user = {"Impersonate-User": f"user-{number % USERS}", "Impersonate-Group": "system:masters"}
    api.post(path, document, headers=as_user).ok()
    api.patch(f"{path}/a", {"metadata": {"labels": {"a": "b"}}}, headers=as_user).ok()
    stored = api.get(f"{path}/a", headers=as_user).ok()
    api.put(f"{path}/a", stored, headers=as_user).ok()
    api.delete(f"{path}/a", headers=as_user).ok()


def lines(api: Api) -> int:
    return api.get("/metrics").body.count(b"\n")


def turn_of_scrapes_s(api: Api) -> float:
    """Returns the longest turn of the event loop, in its processor time, while somebody scrapes."""
    with longest_turn(api) as turn:
        for _ in range(SCRAPES):
            api.get("/metrics")
            api.get("/metrics", headers={"Accept-Encoding": "gzip"})
    return turn.thread_cpu_s


@pytest.mark.parametrize("count", SIZES)
def test_scrapes_hold_up_nobody(tmp_path: Path, count: int) -> None:
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        at_first = lines(api)
        names = [define(api, number) for number in range(count)]
        for number in range(count):
            use(api, number)
        assert lines(api) > at_first + count * 100
        turns_s: list[float] = []
        while len(turns_s) < PERIODS and all(each > TURN_S for each in turns_s):
            turns_s.append(turn_of_scrapes_s(api))
        assert min(turns_s) <= TURN_S, (turns_s, server.stderr)
        for name in names:
            api.delete(f"{DEFINITIONS}/{name}").ok()
        # What is left: the resources that the test itself has asked for.
        until(lambda: lines(api), lambda now: now < at_first + 1_000, "no series of definitions are left")
