"""Nobody keeps others from slots, or their bodies from room, whatever it sends or does not send. Row Q05."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPResponse
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psutil
import pytest

from apiserver.endpoints.body_limits import (
    ARRIVAL_CHECKED_EVERY_S,
    BYTES_PER_PERIOD_MIN,
    CHECKS_PER_PERIOD,
    LARGE_BODIES_BYTES_MAX,
)
from apiserver.endpoints.connection import BODY_BYTES_MAX
from tests.hostile.support import longest_turn
from tests.support.api import Answer, Api, until_status
from tests.support.eventually import until
from tests.support.metrics import metric, metrics_of
from tests.support.raw import raw_connection
from tests.support.rbac import bind
from tests.support.server_process import ServerProcess

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_CREATES: Final = re.compile(
    r'apiserver_request_total\{.*resource="configmaps",.*verb="POST",.*code="(\d+)"\} (\d+)'
)
BOB: Final = {"Impersonate-User": "bob"}
SCHEDULER: Final = {"Impersonate-User": "system:kube-scheduler"}
# More than there are slots for writes.
SILENT: Final = 203
UNFINISHED: Final = 200
# The longest turn of the event loop, and how often it is measured, as machines are slow now and then.
TURN_S: Final = 0.05
TRIES: Final = 3
# More than there are slots for reads.
UNREAD_LISTS: Final = 403


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as server, Api(server) as admin:
        bind(admin, "writers", "cluster-admin", "alice", "bob")
        admin.post(LEASES, {"metadata": {"name": "kube-scheduler"}}).ok()
        until_status(200, lambda: admin.get(CONFIG_MAPS, headers={"Impersonate-User": "alice"}))
        yield server


@pytest.fixture
def admin(server: ServerProcess) -> Iterator[Api]:
    with Api(server) as api:
        yield api


def request_head(method: str, path: str, *lines: str, token: str = "alice-token") -> bytes:
    fixed = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}"]
    return "\r\n".join([*fixed, "Content-Type: application/json", *lines, "", ""]).encode()


def answer(connection: ssl.SSLSocket) -> Answer:
    response = HTTPResponse(connection)
    response.begin()
    pairs = tuple((name.lower(), value) for name, value in response.getheaders())
    return Answer(response.status, dict(pairs), pairs, response.read())


def writes_in_flight(api: Api) -> int:
    return int(metric(api, "apiserver_current_inflight_requests", request_kind="mutating"))


def creates(api: Api) -> Counter[str]:
    """How many creations of ConfigMaps have been answered, by code."""
    lines = metrics_of(api).splitlines()
    found = (_CREATES.match(line) for line in lines)
    return Counter({each[1]: int(each[2]) for each in found if each is not None})


def assert_others_are_served(admin: Api) -> None:
    """At the first try: another user, who may do anything, and a component that has to renew its lease."""
    body = {"metadata": {"generateName": "a"}}
    admin.post(CONFIG_MAPS, body, headers=BOB).ok()
    admin.post(CONFIG_MAPS, body).ok()
    admin.patch(f"{LEASES}/kube-scheduler", {"spec": {"leaseTransitions": 1}}, headers=SCHEDULER)
    lease = admin.get(f"{LEASES}/kube-scheduler", headers=SCHEDULER).ok()
    admin.put(f"{LEASES}/kube-scheduler", lease, headers=SCHEDULER).ok()
    for path in ("/livez", "/readyz", "/version"):
        assert admin.get(path).status == 200


@pytest.mark.parametrize("path", [CONFIG_MAPS, pytest.param(REVIEWS, marks=pytest.mark.slow)])
def test_silent_bodies(server: ServerProcess, admin: Api, path: str) -> None:
    """Announced by who may send them, and never sent."""
    with ExitStack() as stack, longest_turn(admin) as turn:
        silent = [stack.enter_context(raw_connection(server)) for _ in range(SILENT)]
        for connection in silent:
            connection.sendall(request_head("POST", path, "Content-Length: 100"))
        until(lambda: writes_in_flight(admin), lambda found: found > 0, what="bodies are awaited")
        assert_others_are_served(admin)
        ended = answer(silent[-1])
        assert (ended.status, ended.reason) == (408, "Timeout")
        assert ended.headers["connection"] == "close"
        assert_others_are_served(admin)
    assert turn.thread_cpu_s <= 0.05


def test_silent_bodies_that_nobody_wants(tmp_path: Path) -> None:
    """Of a user who has no role: refused at once."""
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(tmp_path))
        admin = stack.enter_context(Api(server))
        for _ in range(SILENT):
            connection = stack.enter_context(raw_connection(server))
            connection.sendall(request_head("POST", CONFIG_MAPS, "Content-Length: 100"))
            assert answer(connection).status == 403
        assert writes_in_flight(admin) == 0
        admin.post(CONFIG_MAPS, {"metadata": {"generateName": "a"}}).ok()


def send_unfinished(connection: ssl.SSLSocket, head: bytes) -> None:
    """Send a body but for its last byte, for as long as the server takes it."""
    with contextlib.suppress(OSError):
        connection.sendall(head)
        connection.sendall(b" " * (BODY_BYTES_MAX - 1))


# What waits for a state that is far away, for three seconds, and has its slot meanwhile.
SLOW: Final = [
    pytest.param("GET", 403, id="reads", marks=pytest.mark.slow),
    pytest.param("DELETE", 203, id="writes"),
]


@pytest.mark.parametrize(("method", "count"), SLOW)
def test_slow_requests(server: ServerProcess, admin: Api, method: str, count: int) -> None:
    """One user's, more than there are slots: it is refused some of them, and nobody else any."""
    waiting = request_head(method, f"{CONFIG_MAPS}?resourceVersion=999999999")
    with ExitStack() as stack:
        slow = [stack.enter_context(raw_connection(server)) for _ in range(count)]
        for connection in slow:
            connection.sendall(waiting)
        assert_others_are_served(admin)
        statuses = [answer(connection).status for connection in slow]
        assert_others_are_served(admin)
    assert set(statuses) <= {429, 504}
    assert 504 in statuses


KNOWN_LENGTH: Final = request_head("POST", CONFIG_MAPS, f"Content-Length: {BODY_BYTES_MAX}")
ONE_CHUNK: Final = (
    request_head("POST", CONFIG_MAPS, "Transfer-Encoding: chunked") + b"%x\r\n" % BODY_BYTES_MAX
)
FRAMINGS: Final = [
    pytest.param(KNOWN_LENGTH, id="of known length"),
    pytest.param(ONE_CHUNK, id="in one chunk"),
]


@pytest.mark.slow
@pytest.mark.parametrize("head", FRAMINGS)
def test_unfinished_bodies(server: ServerProcess, admin: Api, head: bytes) -> None:
    """The requests of all come in the same turn, which is short."""
    turns_s: list[float] = []
    while len(turns_s) < TRIES and all(each > TURN_S for each in turns_s):
        turns_s.append(turn_of_unfinished_bodies(server, admin, head))
    assert min(turns_s) <= TURN_S, turns_s


def turn_of_unfinished_bodies(server: ServerProcess, admin: Api, head: bytes) -> float:
    """Returns the longest turn, in seconds of the thread's processor time, while bodies do not end."""
    process = psutil.Process(server.pid)
    before = process.memory_info().rss
    answered_before = creates(admin)
    with ExitStack() as stack, longest_turn(admin) as turn:
        unfinished = [stack.enter_context(raw_connection(server)) for _ in range(UNFINISHED)]
        senders = [threading.Thread(target=send_unfinished, args=(each, head)) for each in unfinished]
        for sender in senders:
            sender.start()
        peak = 0
        # Those that got room first come too slowly.

        def some_are_given_up() -> bool:
            nonlocal peak
            assert_others_are_served(admin)
            peak = max(peak, process.memory_info().rss)
            return creates(admin)["408"] > answered_before["408"]

        until(some_are_given_up)
        for connection in unfinished:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for sender in senders:
            sender.join()
    # Beside those that have room, each connection has what its flow control lets through, and its TLS.
    assert peak - before < LARGE_BODIES_BYTES_MAX + UNFINISHED * 400_000
    until(lambda: writes_in_flight(admin), lambda found: found == 0, what="all have ended")
    assert (creates(admin) - answered_before).keys() <= {"201", "408", "429"}
    return turn.thread_cpu_s


def test_a_body_waits_for_room_before_it_is_asked_for(server: ServerProcess, admin: Api) -> None:
    """`Expect: 100-continue` is answered when the body may come; until then nobody has to send it."""
    expecting = request_head("POST", CONFIG_MAPS, f"Content-Length: {BODY_BYTES_MAX}", "Expect: 100-continue")
    with ExitStack() as stack:
        connections = [
            stack.enter_context(raw_connection(server))
            for _ in range(LARGE_BODIES_BYTES_MAX // BODY_BYTES_MAX)
        ]
        for connection in connections:
            connection.sendall(expecting)
            connection.setblocking(False)
        got: list[bytes] = []

        def asked() -> int:
            for connection in connections:
                with contextlib.suppress(ssl.SSLWantReadError):
                    got.append(connection.recv(1000))
            return len(got)

        wanted = LARGE_BODIES_BYTES_MAX * 4 // 5 // BODY_BYTES_MAX
        until(asked, lambda count: count >= wanted, "those that have room are asked")
        assert_others_are_served(admin)
        asked()
        assert got == [b"HTTP/1.1 100 Continue\r\n\r\n"] * wanted


@pytest.mark.slow
def test_a_body_that_comes_slowly_but_surely(server: ServerProcess) -> None:
    """For longer than one that does not come may take. Nothing can be awaited instead."""
    body = b'{"metadata":{"generateName":"slow"},"data":{"k":"%b"}}' % (b"x" * 30_000)
    pause_s, pieces = 0.5, 14
    size = len(body) // pieces + 1
    period_s = ARRIVAL_CHECKED_EVERY_S * CHECKS_PER_PERIOD
    assert (pieces - 1) * pause_s > period_s
    assert size / pause_s > 3 * BYTES_PER_PERIOD_MIN / period_s
    with raw_connection(server) as connection:
        connection.sendall(request_head("POST", CONFIG_MAPS, "Transfer-Encoding: chunked"))
        for at in range(0, len(body), size):
            part = body[at : at + size]
            connection.sendall(b"%x\r\n%b\r\n" % (len(part), part))
            time.sleep(pause_s)
        connection.sendall(b"0\r\n\r\n")
        assert answer(connection).status == 201


PADDING: Final = b'{"metadata":{"generateName":"a"},"data":{"k":"%b"}}' % (b"x" * 100_000)
POST: Final = request_head("POST", CONFIG_MAPS, f"Content-Length: {len(PADDING)}") + PADDING
WATCH: Final = f"{CONFIG_MAPS}?watch=1"
# What a client may send behind the head of a watch, which nobody will read before that ends.
UNREAD: Final = {
    "requests": request_head("GET", WATCH) + POST * 32,
    "a body": request_head("GET", WATCH, f"Content-Length: {BODY_BYTES_MAX}") + b" " * (BODY_BYTES_MAX - 1),
}


@pytest.mark.parametrize("sent", UNREAD.values(), ids=UNREAD)
def test_what_nobody_reads_does_not_pile_up(server: ServerProcess, admin: Api, sent: bytes) -> None:
    """3 MB behind each of 50 watches: it is left with the client, or discarded."""
    process = psutil.Process(server.pid)
    with ExitStack() as stack:
        watches = [stack.enter_context(raw_connection(server)) for _ in range(50)]
        for connection in watches:
            connection.sendall(sent[:1000])
            assert connection.recv(12) == b"HTTP/1.1 200"
        # What the connections and the watches cost is not what this is about.
        before = process.memory_info().rss
        for connection in watches:
            connection.settimeout(0.1)
            with contextlib.suppress(TimeoutError):
                connection.sendall(sent[1000:])
        assert_others_are_served(admin)
        # A connection reads some 130 KB ahead, a sixth of this. All that is sent is four times this.
        assert process.memory_info().rss - before < len(watches) * len(sent) // 4


def test_an_unwanted_body_that_is_not_http_is_no_failure_of_the_server(server: ServerProcess) -> None:
    """Its request has been answered: nothing is left to say, nor to log."""
    with raw_connection(server) as connection:
        connection.sendall(
            request_head("POST", CONFIG_MAPS, "Transfer-Encoding: chunked", token="") + b"2\r\n{ \r\n"
        )
        assert answer(connection).status == 403
        connection.sendall(b"ZZ\r\n")
        with contextlib.suppress(OSError):
            assert connection.recv(1000) == b""
    assert "Traceback" not in server.stderr


def small_window(server: ServerProcess) -> ssl.SSLSocket:
    """A connection on which what is not read waits in the server, not in the kernel."""
    where = urlsplit(server.url)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect((where.hostname, where.port))
    return ssl.create_default_context(cafile=server.ca_path).wrap_socket(
        plain, server_hostname=where.hostname
    )


def test_health_is_never_refused(server: ServerProcess, admin: Api) -> None:
    """Whoever asks, while lists that nobody reads have taken all that one user may take."""
    secrets = "/api/v1/namespaces/default/secrets"
    if admin.get(f"{secrets}/large-0").status != 200:
        for number in range(20):
            large = {"metadata": {"name": f"large-{number}"}, "stringData": {"k": "x" * 100_000}}
            admin.post(secrets, large).ok()
    with ExitStack() as stack:
        for _ in range(UNREAD_LISTS):
            connection = stack.enter_context(closing(small_window(server)))
            connection.sendall(request_head("GET", secrets))
        for token in ("", "alice-token", "admin-token"):
            prober = stack.enter_context(Api(server, token))
            for path in ("/livez", "/readyz", "/healthz", "/readyz?verbose", "/version"):
                assert prober.get(path).status == 200, (token, path)
        assert admin.get("/metrics").status == 200
        assert admin.get("/metrics", headers=BOB).status == 200
        assert admin.get(CONFIG_MAPS, headers=BOB).status == 200
        assert_others_are_served(admin)
