"""Connections and watches move between replicas: while one stops, and when one has joined."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from apiserver.app.watch_balance import SPREAD_S
from tests.support.api import Api, until_status
from tests.support.etcd_process import wheel_etcd
from tests.support.eventually import eventually
from tests.support.resuming_watches import ResumingWatches
from tests.support.server_process import ServerProcess

CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
WATCHES: Final = 60
GOAWAY_REQUESTS_MAX: Final = 3_000


def test_a_server_that_stops_closes_connections_after_their_next_response(tmp_path: Path) -> None:
    """Their clients connect again, to a server that the balancer still uses."""
    server = ServerProcess(tmp_path / "data", "--shutdown-delay-duration=3s")
    with server, Api(server) as api, Api(server) as idle:
        for each in (api, idle):
            assert "connection" not in each.get(CONFIGMAPS).headers
        server.send_signal(signal.SIGTERM)
        assert until_status(500, lambda: api.get("/readyz")).headers["connection"] == "close"
        for _ in range(2):  # on the connection that was idle, and on a new one
            answer = idle.get(CONFIGMAPS)
            assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert server.wait() == 0


def test_watches_of_a_server_that_stops_end_over_the_grace_period(tmp_path: Path) -> None:
    """At 200 a second or more: with few watches nobody waits for the whole period."""
    server = ServerProcess(tmp_path / "data", "--shutdown-watch-termination-grace-period=60s")
    with server, Api(server) as api, ExitStack() as stack:
        watches = [stack.enter_context(api.watch(f"{CONFIGMAPS}?watch=1")) for _ in range(WATCHES)]
        began = time.monotonic()
        assert server.stop() == 0
        assert WATCHES / 200 < time.monotonic() - began < 60
        assert {watch.body() for watch in watches} == {b""}  # each with the last chunk


def test_the_last_event_of_a_watch_tells_how_far_its_client_is(tmp_path: Path) -> None:
    """Another server, which began meanwhile, does not have the changes before its start."""
    server = ServerProcess(tmp_path / "data")
    with server, Api(server) as api, api.watch(f"{CONFIGMAPS}?watch=1&allowWatchBookmarks=1") as events:
        made = api.post("/api/v1/namespaces", {"metadata": {"name": "other"}}).ok()
        server.send_signal(signal.SIGTERM)
        *_, event = events
        assert event["type"] == "BOOKMARK"
        assert int(event["object"]["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
        assert server.wait() == 0


def test_some_responses_close_the_connection(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", "--goaway-chance=0.02")
    with server, Api(server) as api:
        answers = (api.get("/version") for _ in range(GOAWAY_REQUESTS_MAX))
        kept = [*itertools.takewhile(lambda answer: "connection" not in answer.headers, answers)]
        assert len(kept) < GOAWAY_REQUESTS_MAX
        assert api.get("/version").status == 200


def has_all(watches: ResumingWatches, server: ServerProcess) -> bool:
    return watches.open[server.url] == watches.count


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ServerProcess]]:
    """Two replicas, which the test may stop and start."""
    with wheel_etcd(tmp_path) as etcd:
        servers = [ServerProcess(tmp_path / name, f"--etcd-servers={etcd.url}") for name in ("one", "two")]
        with servers[0], servers[1]:
            yield servers


def version_of(server: ServerProcess) -> str:
    """Returns the resourceVersion of a list."""
    with Api(server) as api:
        return str(api.get(CONFIGMAPS).ok()["metadata"]["resourceVersion"])


async def restart(server: ServerProcess, watches: ResumingWatches, other: ServerProcess) -> None:
    """Stop a server, and start it again when the other one has all watches."""
    assert await asyncio.to_thread(server.stop) == 0
    await eventually(partial(has_all, watches, other))
    await asyncio.to_thread(server.start)


@pytest.mark.etcd
async def test_watches_continue_through_a_rolling_restart(servers: list[ServerProcess]) -> None:
    """Also on the server that has just started, and lacks the history before that."""
    one, two = servers
    async with ResumingWatches(servers, CONFIGMAPS, version_of(one), 10) as watches:
        await eventually(lambda: watches.open_count == watches.count)
        await restart(one, watches, two)
        await restart(two, watches, one)
        with Api(one) as api:
            api.post(CONFIGMAPS, {"metadata": {"name": "after"}}).ok()
        await eventually(lambda: watches.seen["after"] == watches.count)
        assert not watches.failed


@pytest.mark.slow  # as long as it takes to spread watches again
@pytest.mark.etcd
async def test_watches_are_spread_again_after_a_restart(servers: list[ServerProcess]) -> None:
    one, two = servers
    async with ResumingWatches(servers, CONFIGMAPS, version_of(one), WATCHES) as watches:
        await eventually(lambda: watches.open_count == watches.count)
        await restart(one, watches, two)
        assert has_all(watches, two)
        await eventually(lambda: watches.open[one.url] >= WATCHES / 4, within_s=2 * SPREAD_S)
        assert not watches.failed
