"""Findings about a running server, and about whatever else answers at its address."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from apiserver.app.doctor import certificates
from apiserver.app.doctor.checks import run_checks
from apiserver.app.doctor.command import checks_of_server
from apiserver.app.doctor.report import Severity
from apiserver.app.doctor.running_server import (
    CacheFacts,
    Limits,
    ServerFacts,
    examine,
    examine_cache,
    gather,
)
from apiserver.cli.server_options import ServerOptions
from apiserver.meta.brand import Brand
from tests.support.authority import Authority
from tests.support.https_answers import serving
from tests.support.ports import free_port
from tests.unit.app.doctor.findings import problems, told

URL: Final = "https://127.0.0.1:6443"
MIB: Final = 1024.0**2
SINCE: Final = "since the start of the server"
SHORT: Final = "the server is short of memory and rejects"
METRICS: Final[dict[str, list[tuple[dict[str, str], float]]]] = {
    "process_open_fds": [({}, 40.0)],
    "process_max_fds": [({}, 1_000.0)],
    "process_resident_memory_bytes": [({}, 200 * MIB)],
    "apiserver_memory_limit_bytes": [({}, 512 * MIB)],
    "apiserver_memory_pressure": [({}, 0.0)],
}


def facts(**samples: float) -> ServerFacts:
    return ServerFacts(URL, metrics={**METRICS, **{name: [({}, value)] for name, value in samples.items()}})


def rising(before: float, now: float) -> ServerFacts:
    name = "apiserver_audit_error_total"
    return facts(**{name: now, "process_start_time_seconds": 1_800_000_000.0})._replace(
        earlier={name: [({}, before)]}
    )


def failing(status: str) -> ServerFacts:
    name = "apiserver_storage_consistency_checks_total"
    of_pods = {"group": "", "resource": "pods"}
    return ServerFacts(
        URL, metrics={name: [({**of_pods, "status": status}, 2.0), ({"status": "error"}, 5.0)]}
    )


SICK: Final[dict[str, tuple[ServerFacts, list[tuple[str, str]]]]] = {
    "healthy": (facts(), []),
    "nobody": (ServerFacts(problem="connection refused"), [("ERROR", "connection refused")]),
    "no valid credentials": (
        ServerFacts(problem="refused with 401", problem_status=401),
        [("WARNING", "refused with 401")],
    ),
    "not ready": (
        facts()._replace(is_ready=False, failed_checks=[("etcd", "reason withheld")]),
        [("ERROR", "the check etcd of /readyz fails: reason withheld")],
    ),
    "not ready, and no reason": (
        facts()._replace(is_ready=False),
        [("ERROR", f"{URL} is not ready")],
    ),
    "no metrics": (
        ServerFacts(URL, metrics_problem="forbidden"),
        [("WARNING", "the metrics cannot be read: forbidden")],
    ),
    "no permission for metrics": (
        ServerFacts(URL, metrics_problem="forbidden", metrics_status=403),
        [("NOTE", "the metrics cannot be read: forbidden")],
    ),
    "another cache": (
        failing("failure"),
        [
            (
                "ERROR",
                "2 comparisons found that the watch cache differs from the store " + SINCE,
            )
        ],
    ),
    "the same cache": (failing("success"), []),
    "lost audit events": (
        facts(apiserver_audit_error_total=3),
        [("NOTE", "3 audit events were lost since the start of the server")],
    ),
    "audit events that were lost before": (
        rising(3, 3),
        [("NOTE", "3 audit events were lost since the start of the server (2027-01-15 08:00 UTC)")],
    ),
    "audit events that are being lost": (
        rising(3, 8),
        [
            (
                "WARNING",
                f"8 audit events were lost {SINCE} (2027-01-15 08:00 UTC), and the number is rising",
            )
        ],
    ),
    "a restart between two reads": (
        rising(8, 3),
        [("NOTE", f"3 audit events were lost {SINCE} (2027-01-15 08:00 UTC)")],
    ),
    "refused connections": (
        facts(apiserver_connections_refused_total=7),
        [("NOTE", "7 connections were refused since the start of the server")],
    ),
    "files": (facts(process_open_fds=900), [("WARNING", "the server has 900 of 1000 files open")]),
    "watches": (
        facts(apiserver_watches=9_000, apiserver_watches_max=10_000),
        [("WARNING", "the server has 9000 of 10000 watches open")],
    ),
    "connections without a limit": (facts(apiserver_connections=9_000, apiserver_connections_max=0), []),
    "memory": (
        facts(apiserver_memory_pressure=1, process_resident_memory_bytes=400 * MIB),
        [
            (
                "WARNING",
                f"{SHORT} large requests: it uses 400 MiB of memory of 512 MiB",
            )
        ],
    ),
    "nearly all memory": (
        facts(apiserver_memory_pressure=2, process_resident_memory_bytes=500 * MIB),
        [
            (
                "ERROR",
                f"{SHORT} most requests: it uses 500 MiB of memory of 512 MiB",
            )
        ],
    ),
}


@pytest.mark.parametrize(("found", "expected"), SICK.values(), ids=SICK)
def test_findings(found: ServerFacts, expected: list[tuple[str, str]]) -> None:
    assert problems(examine(found)) == expected


def test_certificates_in_use_are_those_of_the_metrics() -> None:
    now = datetime.datetime.fromtimestamp(1_800_000_000, datetime.UTC)
    name = "apiserver_tls_certificate_expiration_timestamp_seconds"
    server = ServerFacts(URL, metrics={name: [({"certificate": "serving"}, 1_800_000_000.0 + 5 * 86_400)]})
    assert told(certificates.problems(server.certificates(), now)) == [
        ("WARNING", f"serving (in use by {URL}) expires in 5 days (2027-01-20)")
    ]


CACHES: Final = {
    "current": (
        CacheFacts(0.012, "", 500, 500),
        ("OK", "a consistent list took 12 ms, and the watch cache is at revision 500"),
    ),
    "a little behind": (
        CacheFacts(0.012, "", 500, 490),
        ("OK", "a consistent list took 12 ms, and the watch cache is at revision 490"),
    ),
    "unknown": (CacheFacts(0.012, "", 500, 0), ("OK", "a consistent list took 12 ms")),
    "slow": (
        CacheFacts(2.5, "", 500, 500),
        ("WARNING", "a consistent list took 2500 ms: the watch cache is behind the store"),
    ),
    "behind for seconds": (
        CacheFacts(0.012, "", 500, 500, 3.21),
        ("WARNING", "the watch cache was 3.2 s behind the store"),
    ),
    "far behind": (
        CacheFacts(0.012, "", 5_000, 490),
        ("WARNING", "the watch cache is 4510 revisions behind the store (490 of 5000)"),
    ),
    "failed": (CacheFacts(None, "Timeout"), ("ERROR", "a consistent list failed: Timeout")),
    "no permission": (
        CacheFacts(None, "forbidden", status=403),
        ("NOTE", "a consistent list failed: forbidden"),
    ),
    "nothing was listed": (
        CacheFacts(None),
        ("NOTE", "this check was not possible, because the request to /readyz failed"),
    ),
}


@pytest.mark.parametrize(("cache", "found"), CACHES.values(), ids=CACHES)
def test_the_watch_cache(cache: CacheFacts, found: tuple[str, str]) -> None:
    assert told(examine_cache(cache)) == [found]


# ---- whatever answers


class Answering(BaseHTTPRequestHandler):
    """Answers every request with the same bytes."""

    protocol_version = "HTTP/1.1"
    answer: ClassVar[bytes] = b""

    def do_GET(self) -> None:
        self.wfile.write(self.answer)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


def whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nDate: yesterday\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


GARBAGE: Final = {
    "nothing": b"",
    "no HTTP": b"\x16\x03\x01 SSH-2.0\r\n\r\n",
    "a page": whole(b"<html>"),
    "an error": whole(b"oops", b"500 Internal Server Error"),
    "half an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "a list": whole(b"[]"),
    "wrong types": whole(b'{"metadata": 5, "items": {"a": [1]}, "requests": 7, "data": []}'),
    "nested wrongly": whole(
        b'{"metadata": {"resourceVersion": "x"}, "requests": [5], "release": [], "items": [null, 7, '
        b'{"metadata": [], "webhooks": [{"clientConfig": {"url": "https://[::"}}], "spec": 7}]}'
    ),
    "a URL that is not valid": whole(
        b'{"items": [{"metadata": {"name": "a"}, "webhooks": [{"clientConfig": {"url": "https://[::"}}]}]}'
    ),
    "a bundle that is a list": whole(
        b'{"items": [{"metadata": {"name": "a"}, "webhooks": [{"clientConfig": {"caBundle": ["x"]}}]}]}'
    ),
    "a port that is not one": whole(
        b'{"items": [{"metadata": {"name": "a"}, "webhooks": [{"clientConfig": {"service": '
        b'{"namespace": "a", "name": "b", "port": 1e9}}}]}], "spec": {"ports": [{"port": 1e9}]}}'
    ),
    "metrics that are no numbers": whole(
        b"apiserver_watch_cache_resource_version NaN\napiserver_watch_cache_lag_seconds +Inf\n"
        b"apiserver_tls_certificate_expiration_timestamp_seconds 1e400\nprocess_open_fds NaN\n"
    ),
    "metrics of no time": whole(b"process_open_fds 5 inf\n"),
    "metrics": whole(b'process_open_fds{a="b} x\n# TYPE\n'),
    "a refusal": whole(b'{"message": "forbidden"}', b"403 Forbidden"),
    "odd bytes": whole(bytes(range(256))),
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "ca")


@pytest.fixture(params=GARBAGE.values(), ids=list(GARBAGE))
def garbage(request: pytest.FixtureRequest, authority: Authority, tmp_path: Path) -> Iterator[ServerOptions]:
    class Handler(Answering):
        answer = request.param

    with serving(authority.issue("server"), Handler) as url:
        yield ServerOptions(server=url, certificate_authority=authority.ca, otherwise=tmp_path / "none")


def test_a_server_that_answers_garbage_has_findings(garbage: ServerOptions) -> None:
    sections = run_checks(list(checks_of_server(garbage, Brand())))
    assert [each.name for each in sections] == [
        "server",
        "watch cache",
        "webhooks and APIServices",
        "deprecated APIs",
    ]
    found = [finding for each in sections for finding in each.findings]
    assert max(each.severity for each in found) >= Severity.NOTE
    assert [each.message for each in found if each.message.startswith("the check failed")] == []


async def test_nobody_answers(tmp_path: Path) -> None:
    url = f"https://127.0.0.1:{free_port()}"
    refused = f"the request to {url} failed: Connection refused"
    facts = await gather(ServerOptions(server=url, otherwise=tmp_path / "none"))
    assert facts == ServerFacts(problem=refused)
    assert (
        await gather(ServerOptions(tmp_path / "none"))
    ).problem == f"{tmp_path / 'none'}: No such file or directory"


# ---- a server that is slow or in trouble

HEALTHY: Final = {
    "/readyz": b"ok",
    "/livez": b"ok",
    "/api/v1/namespaces": b'{"metadata": {"resourceVersion": "12"}}',
    "/metrics": b"process_open_fds 4\napiserver_watch_cache_resource_version 11\nnot {of interest\n",
}


class Api(Answering):
    """Answers as a server. paths: those that were asked for, in their order."""

    paths: list[str]
    hangs_at = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.paths.append(path)
        if path == self.hangs_at:
            time.sleep(0.3)
        self.wfile.write(whole(self.body(path)))

    def body(self, path: str) -> bytes:
        return HEALTHY[path]


async def answers(
    handler: type[Api], authority: Authority, directory: Path, limits: Limits | None = None
) -> ServerFacts:
    handler.paths = []
    with serving(authority.issue("server"), handler) as url:
        options = ServerOptions(server=url, certificate_authority=authority.ca, otherwise=directory / "none")
        return await gather(options, limits)


async def test_two_checks_share_the_answers(authority: Authority, tmp_path: Path) -> None:
    found = await answers(Api, authority, tmp_path)
    assert Api.paths == ["/readyz", "/livez", "/api/v1/namespaces", "/metrics"]
    assert (found.cache.revision, found.cache.cached) == (12, 11)
    assert found.total("process_open_fds") == 4


async def test_a_list_that_hangs_leaves_the_metrics(authority: Authority, tmp_path: Path) -> None:
    class Slow(Api):
        hangs_at = "/api/v1/namespaces"

    found = await answers(Slow, authority, tmp_path, Limits(call_within_s=0.15))
    assert found.cache.problem == "the request to the server failed: no response within 0.15 s"
    assert found.total("process_open_fds") == 4


async def test_a_counter_that_is_not_0_is_read_twice(authority: Authority, tmp_path: Path) -> None:
    class Losing(Api):
        def body(self, path: str) -> bytes:
            lost = b"apiserver_audit_error_total %d\n" % self.paths.count("/metrics")
            return lost if path == "/metrics" else HEALTHY[path]

    found = await answers(Losing, authority, tmp_path, Limits(rise_within_s=0.01))
    assert (found.total("apiserver_audit_error_total"), found.rise("apiserver_audit_error_total")) == (2, 1)


async def test_metrics_have_a_length(authority: Authority, tmp_path: Path) -> None:
    found = await answers(Api, authority, tmp_path, Limits(metrics_bytes_max=60))
    assert found.metrics is None
    assert found.metrics_problem.endswith("the response is longer than 60 bytes")
