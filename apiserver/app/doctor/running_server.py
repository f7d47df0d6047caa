"""Checks a running server by its health checks, its metrics, and a consistent list."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from http import HTTPStatus
from math import isfinite
from time import monotonic, time
from typing import Final, NamedTuple, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from apiserver.app.doctor import clocks
from apiserver.app.doctor.certificates import CertificateFile, Validity
from apiserver.app.doctor.clocks import ClockReading
from apiserver.app.doctor.deadline import Deadline, NoAnswerInTime
from apiserver.app.doctor.report import Finding, Severity, error, note, ok, unchecked, warning
from apiserver.app.doctor.units import milliseconds, size
from apiserver.cli.api_client import ApiClient, RequestFailed
from apiserver.cli.server_options import ServerOptions

T = TypeVar("T")

# A server that takes longer does not answer its clients, either.
ANSWER_WITHIN_S: Final = 5.0
# Of a call with its connection, and of all calls, so that a slow server has findings before the check ends.
CALL_WITHIN_S: Final = 6.0
SERVER_WITHIN_S: Final = 8.0
# A server of many resources has a fifth of this.
METRICS_BYTES_MAX: Final = 32 * 1024 * 1024
# Counters that rise within this time show a problem that lasts.
RISE_WITHIN_S: Final = 2.0
COMMAND: Final = "doctor"
# Clients notice a read that waits so long for the watch cache.
LIST_SLOW_S: Final = 1.0
# A busy server is some dozens of revisions behind for milliseconds.
LAG_REVISIONS_MAX: Final = 1_000
# Of a limit.
USED_SHARE_MAX: Final = 0.8
_FAILED_CHECK: Final = re.compile(r"^\[-\](\S+) failed: (.*)$", re.MULTILINE)
_CACHE_REVISION: Final = "apiserver_watch_cache_resource_version"
_CACHE_LAG: Final = "apiserver_watch_cache_lag_seconds"
_EXPIRATION: Final = "apiserver_tls_certificate_expiration_timestamp_seconds"
_STARTED: Final = "process_start_time_seconds"
# In seconds since 1970; a larger one is of no year that Python has.
TIMESTAMP_MAX: Final = 1e11
_MEMORY: Final = (
    "process_resident_memory_bytes",
    "apiserver_memory_limit_bytes",
    "apiserver_memory_pressure",
)

# The statuses of responses to users without permission.
_REFUSALS: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_CREDENTIALS: Final = (
    "Use valid credentials of a user with the required permission, such as the user in admin.kubeconfig."
)

# The values of a metric, each with its labels.
Samples = Sequence[tuple[Mapping[str, str], float]]


class CacheFacts(NamedTuple):
    """The watch cache. list_s: how long a consistent list took; None if it failed, for the reason in problem,
    or if nothing was listed.

    status: that of the response, if it failed; 0 if there was none.
    revision: that of the list. cached: the revision that the cache had reached after it; 0 if unknown.
    lag_s: how far the cache was behind the store when the server last measured it.
    """

    list_s: float | None
    problem: str = ""
    revision: int = 0
    cached: int = 0
    lag_s: float = 0.0
    status: int = 0


class ServerFacts(NamedTuple):
    """A running server. problem: why a request to it failed; empty if none did.

    problem_status: of the response to that request; 0 if there was none.
    failed_checks: of /readyz, each with its reason. is_ready: whether /readyz succeeds.
    metrics: by name; None if they cannot be read, for the reason in metrics_problem, with metrics_status.
    earlier: the metrics some seconds before; None if they were read once.
    """

    url: str = ""
    problem: str = ""
    problem_status: int = 0
    is_ready: bool = True
    failed_checks: Sequence[tuple[str, str]] = ()
    metrics: Mapping[str, Samples] | None = None
    metrics_problem: str = ""
    metrics_status: int = 0
    earlier: Mapping[str, Samples] | None = None
    clock: ClockReading | None = None
    cache: CacheFacts = CacheFacts(None)

    def total(self, name: str, **labels: str) -> float:
        """Returns the sum of the values of a metric that have some labels; 0 if there are none."""
        return _total(self.metrics or {}, name, labels)

    def rise(self, name: str, **labels: str) -> float:
        """Returns by how much the sum has risen since the metrics were read before; 0 if they were not."""
        earlier = self.metrics if self.earlier is None else self.earlier
        return self.total(name, **labels) - _total(earlier or {}, name, labels)

    def certificates(self) -> list[CertificateFile]:
        """Returns the certificates that the server uses, as its metrics show them."""
        start = datetime.fromtimestamp(0, UTC)
        return [
            CertificateFile(
                f"{labels.get('certificate', 'a certificate')} (in use by {self.url})",
                (Validity(start, datetime.fromtimestamp(value, UTC)),),
            )
            for labels, value in (self.metrics or {}).get(_EXPIRATION, ())
            if 0 < value < TIMESTAMP_MAX
        ]


class Limits(NamedTuple):
    """The limits of what is asked of a server."""

    call_within_s: float = CALL_WITHIN_S
    rise_within_s: float = RISE_WITHIN_S
    metrics_bytes_max: int = METRICS_BYTES_MAX


async def gather(options: ServerOptions, limits: Limits | None = None) -> ServerFacts:
    """Asks for /readyz, a consistent list and /metrics. Failures become facts."""
    limits = limits or Limits()
    deadline = Deadline(SERVER_WITHIN_S, limits.call_within_s)

    def ask_alone(question: Callable[[ApiClient], T]) -> T:
        with closing(ApiClient(options, COMMAND, ANSWER_WITHIN_S, limits.metrics_bytes_max)) as client:
            return question(client)

    async def ask(question: Callable[[ApiClient], T]) -> T:
        try:
            return await deadline.call(lambda: asyncio.to_thread(ask_alone, question))
        except NoAnswerInTime as failure:
            raise RequestFailed(f"the request to the server failed: {failure}") from None

    try:
        facts = await ask(_readiness)
    except RequestFailed as failure:
        return ServerFacts(problem=str(failure), problem_status=failure.status)
    try:
        cache = await ask(_consistent_list)
    except RequestFailed as failure:
        cache = CacheFacts(None, str(failure), status=failure.status)
    facts = facts._replace(cache=cache)
    try:
        metrics = await ask(_metrics)
        facts = facts._replace(metrics=metrics, cache=_with_metrics(cache, metrics))
        if any(facts.total(name, **labels) for name, labels, *_ in _COUNTERS):
            await asyncio.sleep(limits.rise_within_s)
            facts = facts._replace(earlier=metrics, metrics=await ask(_metrics))
    except RequestFailed as failure:  # of the second time, the first metrics remain
        facts = facts._replace(metrics_problem=str(failure), metrics_status=failure.status)
    return facts


def _readiness(client: ApiClient) -> ServerFacts:
    began = time()
    ready = client.text("/readyz?verbose")
    ended = time()
    if ready.status in _REFUSALS:
        raise RequestFailed(f"/readyz: the server responded with {ready.status}", ready.status)
    return ServerFacts(
        client.server,
        is_ready=ready.status == HTTPStatus.OK,
        failed_checks=_FAILED_CHECK.findall(ready.text),
        clock=clocks.reading(client.server, ready.headers, began, ended),
    )


def _consistent_list(client: ApiClient) -> CacheFacts:
    """Lists consistently, which waits until the cache is as new as the store."""
    client.text("/livez")  # which opens the connection: a slow name server is no slow list
    began = monotonic()
    answer = client.get("/api/v1/namespaces", {"limit": "1"})
    taken_s = monotonic() - began
    try:
        return CacheFacts(taken_s, revision=int((answer.get("metadata") or {}).get("resourceVersion") or 0))
    except (AttributeError, TypeError, ValueError):
        raise RequestFailed("the response is not a list of namespaces") from None


def _with_metrics(cache: CacheFacts, metrics: Mapping[str, Samples]) -> CacheFacts:
    return cache._replace(
        cached=int(min((value for _, value in metrics.get(_CACHE_REVISION, ())), default=0)),
        lag_s=max((value for _, value in metrics.get(_CACHE_LAG, ())), default=0.0),
    )


def _metrics(client: ApiClient) -> Mapping[str, Samples]:
    """Returns the values of the metrics that are looked at. Raises RequestFailed."""
    answer = client.text("/metrics")
    if answer.status != HTTPStatus.OK:
        raise RequestFailed(f"/metrics: the server responded with {answer.status}", answer.status)
    metrics: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    lines = "\n".join(each for each in answer.text.split("\n") if each.startswith(_METRICS))
    try:
        for each in text_string_to_metric_families(f"{lines}\n"):
            for sample in each.samples:
                if isfinite(sample.value):  # No metric that is looked at has another value.
                    metrics.setdefault(sample.name, []).append((sample.labels, sample.value))
        if not metrics:
            raise ValueError
    except (ArithmeticError, LookupError, TypeError, ValueError):
        raise RequestFailed("/metrics: the response is not in the text format of Prometheus") from None
    return metrics


def _total(metrics: Mapping[str, Samples], name: str, labels: Mapping[str, str]) -> float:
    return sum(value for found, value in metrics.get(name, ()) if labels.items() <= found.items())


# Counters since the start of the server that are 0 where all is well: the metric, its labels, how serious it
# is, and what it means. A warning is a note while the counter does not rise.
_COUNTERS: Final[Sequence[tuple[str, Mapping[str, str], Severity, str, str]]] = (
    (
        "apiserver_storage_consistency_checks_total",
        {"status": "failure"},
        Severity.ERROR,
        "{} comparisons found that the watch cache differs from the store",
        "Restart the server to fill the cache again, and report this as a bug.",
    ),
    (
        "apiserver_storage_decode_errors_total",
        {},
        Severity.WARNING,
        "{} values in the store could not be read as objects",
        "Find the names of the objects in the log, and recover or delete the objects.",
    ),
    (
        "apiserver_audit_error_total",
        {},
        Severity.WARNING,
        "{} audit events were lost",
        "Check the disk of the audit log, or the audit webhook.",
    ),
    (
        "apiserver_connections_refused_total",
        {},
        Severity.WARNING,
        "{} connections were refused",
        "Close unused clients, or raise --max-connections and the limit of open files.",
    ),
    (
        "apiserver_watches_refused_total",
        {},
        Severity.WARNING,
        "{} watches were refused",
        "Find the client with the most watches, or raise --max-watches.",
    ),
    (
        "apiserver_worker_restarts_total",
        {},
        Severity.WARNING,
        "workers were restarted {} times",
        "Look for OOMKilled or a traceback in the log before the restart.",
    ),
)


def examine(facts: ServerFacts) -> Iterator[Finding]:
    if facts.problem_status in _REFUSALS:
        yield unchecked(facts.problem, _CREDENTIALS, facts.problem_status)
        return
    if facts.problem:
        yield error(
            facts.problem,
            "Start the server, or select it with --kubeconfig or --server and check the network.",
        )
        return
    for name, reason in facts.failed_checks:
        yield error(
            f"the check {name} of /readyz fails: {reason}", "See the log of the server for the cause."
        )
    if not facts.is_ready and not facts.failed_checks:
        yield error(f"{facts.url} is not ready", "See the log of the server for the cause.")
    elif not facts.failed_checks:
        yield ok(f"{facts.url} is ready")
    if facts.metrics is None:
        yield unchecked(
            f"the metrics cannot be read: {facts.metrics_problem}",
            "Use a user who can get /metrics, such as the user in admin.kubeconfig.",
            facts.metrics_status,
        )
        return
    yield from _examine_counters(facts)
    yield from _examine_resources(facts)


def _examine_counters(facts: ServerFacts) -> Iterator[Finding]:
    """Yields findings about counters that are not 0. Without a rise, the problem may be long past."""
    since = "since the start of the server"
    if 0 < (started := facts.total(_STARTED)) < TIMESTAMP_MAX:
        since += f" ({datetime.fromtimestamp(started, UTC):%Y-%m-%d %H:%M} UTC)"
    for name, labels, severity, text, advice in _COUNTERS:
        if amount := facts.total(name, **labels):
            is_rising = facts.rise(name, **labels) > 0
            yield Finding(
                severity if is_rising or severity is Severity.ERROR else Severity.NOTE,
                f"{text.format(f'{amount:.0f}')} {since}{', and the number is rising' if is_rising else ''}",
                advice,
            )


# What is open, its limit, and what to do when the limit is near.
_LIMITS: Final = (
    (
        "process_open_fds",
        "process_max_fds",
        "files",
        "Raise the limit of open files (LimitNOFILE of systemd), or close unused clients.",
    ),
    (
        "apiserver_connections",
        "apiserver_connections_max",
        "connections",
        "Raise --max-connections and the limit of open files, or add a replica.",
    ),
    (
        "apiserver_watches",
        "apiserver_watches_max",
        "watches",
        "Find the client with the most watches, raise --max-watches, or add a replica.",
    ),
)


# The beginnings of the lines of /metrics that are looked at.
_METRICS: Final = (
    _CACHE_REVISION,
    _CACHE_LAG,
    _EXPIRATION,
    _STARTED,
    *_MEMORY,
    *(name for name, *_ in _COUNTERS),
    *(name for each in _LIMITS for name in each[:2]),
)


def _examine_resources(facts: ServerFacts) -> Iterator[Finding]:
    for metric, limit_metric, what, advice in _LIMITS:
        amount, most = facts.total(metric), facts.total(limit_metric)
        if most and amount > USED_SHARE_MAX * most:
            yield warning(f"the server has {amount:.0f} of {most:.0f} {what} open", advice)
    files = facts.total("process_open_fds")
    used, limit, pressure = map(facts.total, _MEMORY)
    memory = f"{size(used)} of memory" + (f" of {size(limit)}" if limit else "")
    if pressure:
        make = error if pressure > 1 else warning
        yield make(
            f"the server is short of memory and rejects {'most' if pressure > 1 else 'large'} requests: "
            f"it uses {memory}",
            "Raise --memory-limit or the limit of the container, or reduce the number of objects.",
        )
    elif used:
        yield ok(f"the server uses {memory}, and has {files:.0f} files open")


def examine_cache(facts: CacheFacts) -> Iterator[Finding]:
    if facts.list_s is None:
        if not facts.problem:
            yield note(
                "this check was not possible, because the request to /readyz failed",
                "See the findings about the server.",
            )
            return
        message = f"a consistent list failed: {facts.problem}"
        if facts.status in _REFUSALS:
            yield unchecked(message, _CREDENTIALS, facts.status)
        else:
            yield error(message, "Check the store, and the log of the server.")
        return
    lag = facts.revision - facts.cached if facts.cached else 0
    if facts.list_s >= LIST_SLOW_S:
        yield warning(
            f"a consistent list took {milliseconds(facts.list_s)}: the watch cache is behind the store",
            "Check the latency of etcd and the load of the server.",
        )
    elif facts.lag_s >= LIST_SLOW_S:
        yield warning(
            f"the watch cache was {facts.lag_s:.1f} s behind the store",
            "Check the latency of etcd and the load of the server.",
        )
    elif lag > LAG_REVISIONS_MAX:
        yield warning(
            f"the watch cache is {lag} revisions behind the store ({facts.cached} of {facts.revision})",
            "Check the load of the server, or of each worker.",
        )
    else:
        at = f", and the watch cache is at revision {facts.cached}" if facts.cached else ""
        yield ok(f"a consistent list took {milliseconds(facts.list_s)}{at}")
