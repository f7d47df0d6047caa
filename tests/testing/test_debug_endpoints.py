"""/debug/clock and /debug/forks of a server in the process of tests, which its console uses."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime
from typing import Any, Final

import pytest

from apiserver.meta.errors import ServiceUnavailable
from apiserver.testing import ApiServer, ServerDidNotStart, ServerStopped, User
from apiserver.testing.debug_endpoints import FORKS_MAX, ForkRequests, NoSuchFork
from tests.support.eventually import WITHIN_S, until

CLOCK, FORKS = "/debug/clock", "/debug/forks"
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
HOUR_S: Final = 3_600
YEARS_S: Final = 1_000 * 365 * 86_400


@pytest.fixture(scope="module")
def original() -> Iterator[ApiServer]:
    with ApiServer(tokens={"alice-token": User("alice")}) as server:
        yield server


@pytest.fixture
def server(original: ApiServer) -> Iterator[ApiServer]:
    with original.fork() as server:
        yield server


def test_the_clock_is_advanced(server: ApiServer) -> None:
    code, before = server.request("GET", CLOCK)
    assert (code, before["aheadSeconds"]) == (200, 0)
    code, shown = server.request("POST", CLOCK, {"seconds": HOUR_S})
    assert (code, shown["aheadSeconds"]) == (200, HOUR_S)
    moved = datetime.fromisoformat(shown["now"]) - datetime.fromisoformat(before["now"])
    assert HOUR_S <= moved.total_seconds() < HOUR_S + 60
    until(lambda: server.clock.now().isoformat() >= shown["now"][:19], what="the server's own time")
    assert server.request("GET", CLOCK)[1]["aheadSeconds"] == HOUR_S


def test_requests_at_once_keep_the_bound_together(server: ApiServer) -> None:
    """Each is answered before the clock is advanced."""
    with ThreadPoolExecutor(4) as executor:
        body = {"seconds": YEARS_S * 2 // 5}
        answers = [*executor.map(lambda _: server.request("POST", CLOCK, body), range(4))]
    assert sorted(code for code, _ in answers) == [200, 200, 400, 400]
    assert server.request("GET", CLOCK)[1]["aheadSeconds"] == 2 * body["seconds"]


def test_what_is_due_then_happens(server: ApiServer) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    server.wait_for("ServiceAccount", "default", "default")
    token = server.request("POST", path, {"spec": {"expirationSeconds": 600}})[1]["status"]["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert server.request("GET", "/version", headers=headers)[0] == 200
    server.request("POST", CLOCK, {"seconds": 660})
    until(lambda: server.request("GET", "/version", headers=headers)[0] == 401, what="the token has expired")


def test_what_fails_as_the_clock_is_advanced_is_logged(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The response has been sent by then."""

    def fail(_: float) -> None:
        raise ArithmeticError("no such time")

    server._time.clock.subscribe(fail)
    assert server.request("POST", CLOCK, {"seconds": HOUR_S})[0] == 200
    until(lambda: caplog.records, what="the error is logged")
    (record,) = caplog.records
    assert record.getMessage() == "the clock could not be advanced by 3600 s"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ArithmeticError)


REFUSED: Final[dict[str, tuple[Any, str]]] = {
    "no JSON": (b"{", "the body is not valid JSON: unexpected end of JSON input"),
    "no object": ([], "seconds: must be a number"),
    "nothing": ({}, "seconds: must be a number"),
    "a text": ({"seconds": "60"}, "seconds: must be a number"),
    "a boolean": ({"seconds": True}, "seconds: must be a number"),
    "another field": ({"seconds": 1, "hours": 1}, "seconds: must be a number"),
    "back": ({"seconds": -1}, "a server's clock cannot be advanced by -1 day, 23:59:59"),
    "too far": ({"seconds": YEARS_S + 1}, "can be at most 1000 years ahead"),
    "the largest integer": ({"seconds": 2**63 - 1}, "can be at most 1000 years ahead"),
    "the largest number": ({"seconds": 1.7e308}, "can be at most 1000 years ahead"),
    "no number has it": (b'{"seconds": 1' + b"0" * 400 + b"}", "the body is not valid JSON: "),
}


@pytest.mark.parametrize(("body", "message"), REFUSED.values(), ids=REFUSED)
def test_the_clock_is_not_advanced(server: ApiServer, body: Any, message: str) -> None:
    code, status = server.request("POST", CLOCK, body)
    assert (code, message in status["message"]) == (400, True), status
    assert server.request("GET", CLOCK)[1]["aheadSeconds"] == 0


def test_a_fork_is_a_server_of_its_own_until_it_is_stopped(server: ApiServer) -> None:
    server.request("POST", CONFIG_MAPS, {"metadata": {"name": "both"}})
    code, fork = server.request("POST", FORKS, {})
    assert code == 201
    assert server.request("GET", FORKS) == (200, {"forks": [fork]})
    assert fork["url"] != server.url
    (running,) = server._forks._forks.values()
    assert isinstance(running, ApiServer)
    assert running.url == fork["url"]
    assert running.request("GET", f"{CONFIG_MAPS}/both")[0] == 200
    assert server.request("DELETE", f"{FORKS}/{fork['id']}") == (200, fork)
    assert running._runner is None
    assert server.request("GET", FORKS) == (200, {"forks": []})
    code, status = server.request("DELETE", f"{FORKS}/{fork['id']}")
    assert (code, status["message"]) == (404, 'fork "1" not found')


def test_forks_end_with_their_original_and_are_not_too_many(server: ApiServer) -> None:
    for _ in range(FORKS_MAX):
        assert server.request("POST", FORKS, {})[0] == 201
    code, status = server.request("POST", FORKS, {})
    assert (code, status["message"]) == (429, f"this server has {FORKS_MAX} forks already")
    forks = list(server._forks._forks.values())
    server.stop()
    assert [each._runner for each in forks if isinstance(each, ApiServer)] == [None] * FORKS_MAX


def test_a_fork_that_starts_is_not_deleted_by_its_id() -> None:
    started = ApiServer()

    def fork() -> ApiServer:
        with pytest.raises(NoSuchFork):
            forks._end("1")
        return started.start()

    forks = ForkRequests(fork)
    assert forks._start() == {"id": "1", "url": started.url}
    forks.stop()
    assert started._runner is None
    with pytest.raises(ServiceUnavailable):
        forks._start()


def test_a_fork_that_starts_while_its_original_stops_is_refused() -> None:
    started = ApiServer()

    def fork() -> ApiServer:
        forks.stop()
        return started.start()

    forks = ForkRequests(fork)
    with pytest.raises(ServiceUnavailable, match="the server stops"):
        forks._start()
    assert started._runner is None


class StopsSlowly(ApiServer):
    """A fork that is stopped when another one has started. others: what starts that, once there is one."""

    is_stopping = threading.Event()
    others: Sequence[Future[Any]] = ()

    def stop(self) -> None:
        self.is_stopping.set()
        wait(self.others, WITHIN_S)
        super().stop()


def test_a_fork_that_starts_while_another_one_is_being_stopped_is_refused() -> None:
    first, second = StopsSlowly(), ApiServer()
    starting_now = iter((first, second))

    def fork() -> ApiServer:
        server = next(starting_now)
        if server is second:
            first.is_stopping.wait(WITHIN_S)
        return server.start()

    forks = ForkRequests(fork)
    forks._start()
    with ThreadPoolExecutor(1) as threads:
        starting = first.others = [threads.submit(forks._start)]
        until(lambda: len(forks._forks) == 2)
        forks.stop()
        with pytest.raises(ServiceUnavailable, match="the server stops"):
            starting[0].result()
    assert [first._runner, second._runner] == [None, None]


@pytest.mark.parametrize("error", [ServerDidNotStart("no port is free"), ServerStopped("fork")], ids=str)
def test_a_fork_that_does_not_start_takes_no_place(error: Exception) -> None:
    def fail() -> ApiServer:
        raise error

    forks = ForkRequests(fail)
    for _ in range(FORKS_MAX + 1):
        with pytest.raises(ServiceUnavailable, match=str(error)):
            forks._start()


@pytest.mark.parametrize("path", [CLOCK, FORKS])
def test_they_are_for_masters_alone_and_for_these_methods(server: ApiServer, path: str) -> None:
    binding = {
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    server.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    headers = {"Authorization": "Bearer alice-token"}
    until(lambda: server.request("GET", "/api/v1/namespaces", headers=headers)[0] == 200)
    for method in ("GET", "POST"):
        code, status = server.request(method, path, {}, headers=headers)
        assert (code, "only members of system:masters may use it" in status["message"]) == (403, True)
    assert server.request("PUT", path, {})[0] == 405
    assert server.request("GET", f"{path}/none")[0] == 404
