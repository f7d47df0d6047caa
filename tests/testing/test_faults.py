"""Faults of a server for tests, in a thread and as a child process, as its clients see them."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, Final

import orjson
import pytest

from apiserver.testing import (
    Answer,
    ApiServer,
    CutConnection,
    Delay,
    Effect,
    EndWatch,
    ExpireToken,
    HoldBookmarks,
    HoldEvents,
    InvalidFault,
    Match,
    NotReady,
    RefuseTls,
    ServerStopped,
    User,
)
from tests.support.eventually import until
from tests.support.required import library

SECRETS: Final = "/api/v1/namespaces/default/secrets"
CLIENT: Final = {"User-Agent": "client/1"}
AS_ALICE: Final = {**CLIENT, "Authorization": "Bearer alice-token"}
CREATES: Final = Match(verb="create", resource="secrets")
WITHIN_S: Final = 20.0
# A watch is held for so long; whatever else has to come first comes sooner.
HELD_S: Final = 0.3
INITIAL: Final = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


@pytest.fixture(scope="module", params=["thread", "child"])
def shared_server(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    tokens = {
        "alice-token": User("alice", ("system:masters",)),
        "new-token": User("alice", ("system:masters",)),
    }
    with ApiServer(in_process=request.param == "thread", tokens=tokens) as server:
        yield server


@pytest.fixture
def server(shared_server: ApiServer) -> Iterator[ApiServer]:
    yield shared_server
    shared_server.faults.clear()
    shared_server.request("DELETE", SECRETS)


def secret(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def send(server: ApiServer, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    return server.request(method, path, body, headers=CLIENT)


def exists(server: ApiServer, name: str) -> bool:
    return server.request("GET", f"{SECRETS}/{name}")[0] == 200


# ---- requests


def test_an_answer(server: ApiServer) -> None:
    fault = server.faults.inject(Answer(429, retry_after_s=7), CREATES, times=1)
    with closing(server.connect()) as connection:
        connection.request("POST", SECRETS, b"{}", {**server.admin_headers, **CLIENT})
        response = connection.getresponse()
        status = orjson.loads(response.read())
    assert (response.status, response.headers["Retry-After"]) == (429, "7")
    assert (status["reason"], status["details"]) == (
        "TooManyRequests",
        {"kind": "secrets", "retryAfterSeconds": 7},
    )
    assert send(server, "POST", SECRETS, secret("a"))[0] == 201
    assert fault.hits == 1


ANSWERS: Final[dict[str, tuple[Answer, int, str]]] = {
    "a conflict": (Answer(409), 409, "Conflict"),
    "with a reason": (Answer(409, reason="AlreadyExists"), 409, "AlreadyExists"),
    "an error of the server": (Answer(500), 500, "InternalError"),
    "not now": (Answer(503), 503, "ServiceUnavailable"),
    "not found": (Answer(404), 404, "NotFound"),
    "one that kube-apiserver never gives": (Answer(599), 599, ""),
}


@pytest.mark.parametrize(("answer", "code", "reason"), ANSWERS.values(), ids=ANSWERS)
def test_answers(server: ApiServer, answer: Answer, code: int, reason: str) -> None:
    server.faults.inject(answer, Match(verb="get", resource="secrets"))
    found, status = send(server, "GET", f"{SECRETS}/a")
    assert (found, status["code"], status.get("reason", "")) == (code, code, reason)
    assert status["details"]["name"] == "a"


AFTERWARDS: Final[dict[str, Callable[[ApiServer], object]]] = {
    "an answer": lambda server: send(server, "POST", SECRETS, secret("a")),
    "a list": lambda server: send(server, "GET", SECRETS),
    "a failure": lambda server: send(server, "DELETE", f"{SECRETS}/none"),
    "a path of no resource": lambda server: send(server, "GET", "/version"),
    "all of them": lambda server: send(server, "DELETE", SECRETS),
}


@pytest.mark.parametrize("act", AFTERWARDS.values(), ids=AFTERWARDS)
def test_the_answer_comes_after_the_request_was_done(
    server: ApiServer, act: Callable[[ApiServer], tuple[int, Any]]
) -> None:
    with server.faults.inject(Answer(504, after_write=True)) as fault:
        code, status = act(server)
    assert (code, status["reason"], fault.hits) == (504, "Timeout", 1)


def test_what_was_done_stays_so(server: ApiServer) -> None:
    server.faults.inject(Answer(504, after_write=True), CREATES, times=1)
    assert send(server, "POST", SECRETS, secret("a"))[0] == 504
    assert exists(server, "a")
    assert send(server, "POST", SECRETS, secret("a"))[1]["reason"] == "AlreadyExists"


@pytest.mark.parametrize(("moment", "is_done"), [("before-write", False), ("after-write", True)])
def test_a_lost_connection(server: ApiServer, moment: Any, is_done: bool) -> None:
    fault = server.faults.inject(CutConnection(moment), CREATES, times=1)
    with pytest.raises(OSError):  # noqa: PT011  which one depends on how far the client has got
        send(server, "POST", SECRETS, secret("a"))
    assert exists(server, "a") is is_done
    assert fault.hits == 1


def test_a_delay_comes_before_what_else_there_is(server: ApiServer) -> None:
    delay = server.faults.inject(Delay(0.01), CREATES)
    first = server.faults.inject(Answer(503), CREATES, times=1)
    never = server.faults.inject(Answer(500), CREATES, must_hit=False)
    assert send(server, "POST", SECRETS, secret("a"))[0] == 503
    assert (delay.hits, first.hits, never.hits) == (1, 1, 0)


def test_a_delay_ends_when_it_is_cleared(server: ApiServer) -> None:
    delay = server.faults.inject(Delay(3_600), CREATES, times=1)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send, server, "POST", SECRETS, secret("a"))
        until(lambda: delay.hits == 1)
        assert not sent.done()
        delay.clear()
        assert sent.result(WITHIN_S)[0] == 201


def test_a_client_that_has_gone_leaves_its_faults_to_others(server: ApiServer) -> None:
    delay = server.faults.inject(Delay(3_600), CREATES, times=1)
    answer = server.faults.inject(Answer(503), CREATES, times=1)
    with closing(server.connect(timeout_s=WITHIN_S)) as connection:
        connection.request(
            "POST",
            SECRETS,
            orjson.dumps(secret("a")),
            {**server.admin_headers, **CLIENT, "Content-Type": "application/json"},
        )
        until(lambda: delay.hits == 1)
        assert send(server, "POST", SECRETS, secret("b"))[0] == 201
    until(lambda: send(server, "POST", SECRETS, secret("c"))[0] == 503)
    assert answer.hits == 1
    assert not exists(server, "a")


def test_who_may_not_do_what_he_asks_for_has_no_fault(server: ApiServer) -> None:
    with server.faults.inject(Answer(503), CREATES, must_hit=False) as fault:
        headers = {**CLIENT, "Authorization": "Bearer nobody"}
        assert server.request("POST", SECRETS, secret("a"), headers=headers)[0] == 401
    assert fault.hits == 0


# ---- watches


class Watch:
    """A watch of a client. A bookmark or an event is of the form (type, name or resourceVersion)."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def next(self) -> tuple[str, str]:
        """Raises http.client.IncompleteRead, EOFError when it has ended."""
        line = self._response.readline()
        if not line:
            raise EOFError
        event = orjson.loads(line)
        if event["type"] == "ERROR":
            return event["type"], event["object"]["reason"]
        return event["type"], event["object"]["metadata"].get("name", "")

    def rest(self) -> list[tuple[str, str]]:
        """Returns what comes until its end."""
        found = []
        try:
            while True:
                found.append(self.next())
        except EOFError:
            return found


@contextmanager
def watching(server: ApiServer, after: str = "", **query: str) -> Iterator[Watch]:
    """after: a resourceVersion; by default the present one."""
    if not after and "sendInitialEvents" not in query:
        after = server.request("GET", SECRETS)[1]["metadata"]["resourceVersion"]
    parameters = {"watch": "1", "resourceVersion": after, **query}
    target = "&".join(f"{name}={value}" for name, value in parameters.items())
    with closing(server.connect(WITHIN_S)) as connection:
        connection.request("GET", f"{SECRETS}?{target}", headers={**server.admin_headers, **CLIENT})
        with connection.getresponse() as response:
            yield Watch(response)


def create(server: ApiServer, *names: str) -> None:
    for name in names:
        assert server.request("POST", SECRETS, secret(name))[0] == 201


ENDS: Final[dict[str, tuple[EndWatch, list[tuple[str, str]]]]] = {
    "at once, as too old": (EndWatch(), [("ERROR", "Expired")]),
    "at once, silently": (EndWatch(silently=True), []),
    "after an event": (EndWatch(after_events=1), [("ADDED", "a"), ("ERROR", "Expired")]),
    "after two, silently": (EndWatch(silently=True, after_events=2), [("ADDED", "a"), ("ADDED", "b")]),
}


@pytest.mark.parametrize(("effect", "events"), ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("is_open", [False, True], ids=["of a new one", "of an open one"])
def test_the_end_of_a_watch(
    server: ApiServer, effect: EndWatch, events: list[tuple[str, str]], is_open: bool
) -> None:
    if not is_open:
        server.faults.inject(effect, Match(resource="secrets"), times=1)
    with watching(server) as watch:
        if is_open:
            server.faults.inject(effect, Match(resource="secrets"), times=1)
        create(server, "a", "b", "c")
        assert watch.rest() == events
    assert [fault.hits for fault in server.faults.list()] == [1]


def test_a_watch_goes_on_where_another_has_ended(server: ApiServer) -> None:
    server.faults.inject(EndWatch(silently=True, after_events=1), times=1)
    with watching(server) as watch:
        create(server, "a", "b", "c")
        assert watch.rest() == [("ADDED", "a")]
    version = server.request("GET", f"{SECRETS}/a")[1]["metadata"]["resourceVersion"]
    with watching(server, version) as watch:
        assert [watch.next(), watch.next()] == [("ADDED", "b"), ("ADDED", "c")]


def test_the_end_counts_initial_events(server: ApiServer) -> None:
    create(server, "a", "b")
    server.faults.inject(EndWatch(after_events=1), times=1)
    with watching(server, **INITIAL) as watch:
        assert watch.rest()[1:] == [("ERROR", "Expired")]


def test_a_cut_in_an_event(server: ApiServer) -> None:
    server.faults.inject(CutConnection("in-event", after_events=1), Match(verb="watch"), times=1)
    with watching(server) as watch:
        create(server, "a", "b")
        assert watch.next() == ("ADDED", "a")
        with pytest.raises((http.client.IncompleteRead, orjson.JSONDecodeError, ConnectionError)):
            watch.next()
    with watching(server) as watch:
        create(server, "c")
        assert watch.next() == ("ADDED", "c")


def test_a_watch_over_a_websocket(server: ApiServer) -> None:
    websocket = library("websocket")
    server.faults.inject(EndWatch(after_events=1), Match(verb="watch"), times=1)
    version = server.request("GET", SECRETS)[1]["metadata"]["resourceVersion"]
    socket = websocket.create_connection(
        f"wss{server.url.removeprefix('https')}{SECRETS}?watch=1&resourceVersion={version}",
        header=[f"Authorization: Bearer {server.admin_token}", *(f"{k}: {v}" for k, v in CLIENT.items())],
        sslopt={"ca_certs": str(server.ca)},
        timeout=WITHIN_S,
    )
    try:
        create(server, "a", "b")
        events = [orjson.loads(socket.recv()) for _ in range(2)]
        assert [event["type"] for event in events] == ["ADDED", "ERROR"]
        assert socket.recv() == "", "it is closed"
    finally:
        socket.shutdown()


def test_only_as_many_watches_end_as_times_says(server: ApiServer) -> None:
    with watching(server) as first, watching(server) as second:
        fault = server.faults.inject(EndWatch(silently=True, after_events=1), times=1)
        create(server, "a", "b")
        found = [watch.next() for watch in (first, second)]
        assert found == [("ADDED", "a")] * 2
        ended = 0
        for watch in (first, second):
            try:
                assert watch.next() == ("ADDED", "b")
            except EOFError:
                ended += 1
        assert (ended, fault.hits) == (1, 1)


@pytest.mark.parametrize("is_open", [False, True], ids=["of a new one", "of an open one"])
def test_events_that_are_held_come_later_and_in_order(server: ApiServer, is_open: bool) -> None:
    hold = None if is_open else server.faults.inject(HoldEvents(), times=1)
    with watching(server) as watch, watching(server) as other:
        hold = hold or server.faults.inject(HoldEvents(), times=1)
        create(server, "a", "b")
        assert [other.next(), other.next()] == [("ADDED", "a"), ("ADDED", "b")]
        assert hold.hits == 1
        hold.clear()
        assert [watch.next(), watch.next()] == [("ADDED", "a"), ("ADDED", "b")]


def test_events_are_held_for_a_time(server: ApiServer) -> None:
    server.faults.inject(HoldEvents(seconds=HELD_S))
    with watching(server) as watch:
        create(server, "a")
        assert watch.next() == ("ADDED", "a")


@pytest.mark.parametrize("effect", [HoldEvents(HELD_S), HoldBookmarks(HELD_S)], ids=["events", "bookmarks"])
def test_initial_events_and_their_bookmark_come_before_all_else(server: ApiServer, effect: Effect) -> None:
    create(server, "a")
    server.faults.inject(effect)
    with watching(server, **INITIAL) as watch:
        create(server, "z")
        found = []
        while ("ADDED", "z") not in found:
            found.append(watch.next())
    assert found.index(("ADDED", "a")) < found.index(("BOOKMARK", "")) < found.index(("ADDED", "z"))


def test_a_watch_that_is_held_ends_when_its_time_is_up(server: ApiServer) -> None:
    server.faults.inject(HoldEvents())
    with watching(server, timeoutSeconds="1") as watch:
        assert watch.rest() == []


@pytest.mark.parametrize("effect", [HoldEvents(), HoldBookmarks()], ids=["events", "bookmarks"])
def test_what_is_held_does_not_come_when_time_is_up(server: ApiServer, effect: Effect) -> None:
    create(server, "a")
    server.faults.inject(effect)
    with watching(server, timeoutSeconds="1", **INITIAL) as watch:
        create(server, "z")
        found = watch.rest()
    assert found == ([] if isinstance(effect, HoldEvents) else [("ADDED", "a")])


def test_the_server_stops_while_a_watch_is_held() -> None:
    with ApiServer() as server:
        server.faults.inject(HoldEvents())
        with watching(server) as watch:
            create(server, "a")
            server.stop()
            with pytest.raises((EOFError, http.client.IncompleteRead, ConnectionError)):
                watch.next()


# ---- the server


def test_it_is_not_ready(server: ApiServer) -> None:
    with server.faults.inject(NotReady()) as fault:
        code, text = server.request("GET", "/readyz?verbose")
        assert code == 500
        assert "[-]fault-injection failed: reason withheld\n" in text
        assert "warn: fault injection is enabled, active faults: 1\n" in text
        assert server.request("GET", "/readyz/fault-injection")[0] == 500
        assert server.request("GET", "/livez")[0] == 200
        assert fault.hits == 2
    code, text = server.request("GET", "/readyz?verbose")
    assert code == 200
    assert "[+]fault-injection ok\n" in text
    assert "warn: fault injection is enabled, active faults: 0\n" in text


def test_it_is_ready_again_when_time_is_up_by_its_clock(server: ApiServer) -> None:
    server.faults.inject(NotReady(seconds=3_600))
    assert server.request("GET", "/readyz")[0] == 500
    server.clock.advance(hours=1)
    assert server.request("GET", "/readyz")[0] == 200


def test_it_refuses_handshakes(server: ApiServer) -> None:
    server.faults.inject(RefuseTls(), times=1)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        server.request("GET", "/version")
    assert server.request("GET", "/version")[0] == 200


def test_a_token_expires(server: ApiServer) -> None:
    fault = server.faults.inject(ExpireToken(), Match(user="alice"), times=1)
    for _ in range(2):
        assert server.request("GET", SECRETS, headers=AS_ALICE)[0] == 401
    renewed = {**AS_ALICE, "Authorization": "Bearer new-token"}
    assert server.request("GET", SECRETS, headers=renewed)[0] == 200
    assert send(server, "GET", SECRETS)[0] == 200
    assert fault.hits == 1
    fault.clear()
    assert server.request("GET", SECRETS, headers=AS_ALICE)[0] == 200


def test_history_is_forgotten(server: ApiServer) -> None:
    create(server, "a")
    page = server.request("GET", SECRETS, query={"limit": "1"})[1]["metadata"]
    before = page["resourceVersion"]
    with watching(server) as watch:
        create(server, "b")
        assert watch.next() == ("ADDED", "b")
        revision = server.compact()
        create(server, "c")
        assert watch.next() == ("ADDED", "c"), "it has missed nothing"
    assert revision > int(before)
    with watching(server, before) as watch:
        assert watch.rest() == [("ERROR", "Expired")]
    exact = {"resourceVersion": before, "resourceVersionMatch": "Exact"}
    assert server.request("GET", SECRETS, query=exact)[0] == 410
    with watching(server, str(revision)) as watch:
        assert watch.next() == ("ADDED", "c")


# ---- handles


def test_handles(server: ApiServer) -> None:
    fault = server.faults.inject(Answer(503), CREATES, times=2)
    assert repr(fault) == (
        "InjectedFault(Answer(code=503), Match(verb='create', resource='secrets'), times=2)"
    )
    (listed,) = server.faults.list()
    assert (listed.id, listed.effect, listed.match, listed.times) == (fault.id, Answer(503), CREATES, 2)
    send(server, "POST", SECRETS, secret("a"))
    assert (fault.hits, listed.hits) == (1, 1)
    fault.clear()
    fault.clear()
    assert (fault.hits, listed.hits, server.faults.list()) == (1, 1, [])


def test_those_that_were_never_had(server: ApiServer) -> None:
    had = server.faults.inject(Answer(503), CREATES, times=1)
    never = server.faults.inject(Answer(503), Match(resource="nodes"))
    server.faults.inject(Answer(503), Match(resource="pods"), must_hit=False)
    send(server, "POST", SECRETS, secret("a"))
    server.faults.clear()
    assert [fault.id for fault in server.faults.never_hit()] == [never.id]
    assert server.faults.never_hit() == []
    assert had.hits == 1


NO_FAULTS: Final[dict[str, tuple[Any, Any, int | None, str, str]]] = {
    "a text": ("429", Match(), None, "effect", "must be one of"),
    "an effect without values": (Delay, Match(), None, "effect", "must be one of"),
    "in the wrong order": (Match(resource="pods"), Answer(429), None, "effect", "must be one of"),
    "a match that is a text": (Answer(429), "pods", None, "match", "must be a Match"),
    "no times": (Answer(503), Match(), 0, "times", "0 is not between 1 and"),
    "fewer times": (Answer(503), Match(), -1, "times", "-1 is not between 1 and"),
}


@pytest.mark.parametrize(("effect", "match", "times", "field", "why"), NO_FAULTS.values(), ids=NO_FAULTS)
def test_what_is_no_fault(
    server: ApiServer, effect: Any, match: Any, times: int | None, field: str, why: str
) -> None:
    with pytest.raises(InvalidFault) as raised:
        server.faults.inject(effect, match, times=times)
    assert (raised.value.field, why in raised.value.why) == (field, True)
    assert server.faults.list() == []


def test_a_child_process_that_nobody_could_connect_to() -> None:
    with (
        ApiServer(in_process=False) as server,
        pytest.raises(InvalidFault, match="no client could connect to clear the fault"),
    ):
        server.faults.inject(RefuseTls())


@pytest.mark.parametrize("is_in_process", [True, False])
def test_faults_of_a_server_that_does_not_run(is_in_process: bool) -> None:
    server = ApiServer(in_process=is_in_process)
    for act in (
        lambda: server.faults.inject(NotReady()),
        server.faults.list,
        server.faults.clear,
        server.compact,
    ):
        with pytest.raises(ServerStopped):
            act()


def test_forks_and_resets_begin_without_faults() -> None:
    with ApiServer() as server:
        server.faults.inject(NotReady())
        with server.fork() as fork:
            assert fork.faults.list() == []
            assert fork.request("GET", "/readyz")[0] == 200
        server.reset(server.snapshot())
        assert server.faults.list() == []
        assert server.request("GET", "/readyz")[0] == 200
