"""What is counted of requests beside their durations: how long they took by themselves, and how they ended.

Rows N10, Q05. Source: k8s.io/apiserver, pkg/endpoints/metrics.
"""

from __future__ import annotations

import asyncio
import copy
from bisect import bisect_left
from dataclasses import replace
from typing import Final, cast

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from apiserver.admission.plugins.event_rate_limit import TooManyEvents
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.connection import Connection, Server
from apiserver.endpoints.middleware import errors_to_status, measure
from apiserver.endpoints.request_info import parse_target
from apiserver.endpoints.reverse_proxy.errors import BackendUnreachable
from apiserver.meta.errors import Forbidden, NotFound, Timeout, TooManyRequests
from apiserver.meta.vocabulary import GroupResource, GroupVersion
from apiserver.metrics.requests import RequestEnding, RequestMetrics
from apiserver.metrics.resource_series import ServedNames
from apiserver.registry.served_resource import ResourceTable, ServedTable
from tests.unit.endpoints.connections import connected
from tests.unit.endpoints.handlers import calls

SLI_BOUNDS: Final = (
    *(0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),
)
PATH: Final = "/api/v1/namespaces/here/configmaps"
CREATES: Final = {
    "verb": "POST",
    "group": "",
    "version": "v1",
    "resource": "configmaps",
    "subresource": "",
    "scope": "resource",
    "component": "apiserver",
}


def samples(metrics: RequestMetrics, name: str) -> list[tuple[dict[str, str], float]]:
    text = "".join(
        family.metric.head(36) + "".join(family.series)
        for family in metrics.families()
        if name.startswith(family.name)
    )
    return [
        (dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]


CALLS: Final = {
    is_dry_run: calls.call("POST", PATH + "?dryRun=All" * is_dry_run) for is_dry_run in (False, True)
}


def create(seconds: float, waited_s: float, *, is_dry_run: bool = False) -> tuple[ApiCall, float]:
    call = copy.copy(CALLS[is_dry_run])
    call.status, call.waited_s = 201, waited_s
    return call, seconds


TIMES: Final = st.floats(0, 100, allow_nan=False)


@pytest.fixture
def metrics() -> RequestMetrics:
    return RequestMetrics()


@settings(max_examples=50)
@given(st.lists(st.tuples(TIMES, st.just(0.0) | TIMES, st.booleans()), min_size=1, max_size=20))
def test_what_requests_take_by_themselves_is_all_without_what_they_wait(
    observed: list[tuple[float, float, bool]],
) -> None:
    """Of dry runs nothing is told."""
    metrics = RequestMetrics()
    for seconds, waited_s, is_dry_run in observed:
        metrics.observe(*create(seconds, waited_s, is_dry_run=is_dry_run))
    own = [max(0.0, seconds - waited_s) for seconds, waited_s, is_dry_run in observed if not is_dry_run]
    name = "apiserver_request_sli_duration_seconds"
    buckets = samples(metrics, f"{name}_bucket")
    if not own:
        assert buckets == []
        return
    counts = [0] * (len(SLI_BOUNDS) + 1)
    for each in own:
        counts[bisect_left(SLI_BOUNDS, each)] += 1
    assert [float(labels.pop("le")) for labels, _ in buckets] == [*SLI_BOUNDS, float("inf")]
    assert all(labels == CREATES for labels, _ in buckets)
    assert [value for _, value in buckets] == [sum(counts[: n + 1]) for n in range(len(counts))]
    assert samples(metrics, f"{name}_count") == [(CREATES, len(own))]
    assert samples(metrics, f"{name}_sum")[0][1] == pytest.approx(sum(own), abs=1e-6)
    # All of the time is told as before.
    total = sum(value for _, value in samples(metrics, "apiserver_request_duration_seconds_sum"))
    assert total == pytest.approx(sum(seconds for seconds, _, _ in observed))


def test_watches_have_no_duration_of_their_own(metrics: RequestMetrics) -> None:
    call = calls.call("GET", PATH)
    call.info = parse_target("GET", PATH, True)
    call.status = 200
    metrics.observe(call, 5)
    assert samples(metrics, "apiserver_request_sli_duration_seconds_count") == []


def a_call(method: str, path: str, *, is_watch: bool = False) -> ApiCall:
    call = calls.call(method, path)
    call.info = parse_target(method, path, is_watch)
    call.status = 200
    return call


# Method, path, whether it is a watch, and the labels that say what it is about.
LONG_RUNNING: Final[dict[str, tuple[str, str, bool, dict[str, str]]]] = {
    "a watch of a namespace": ("GET", PATH, True, {"verb": "WATCH", "scope": "namespace"}),
    "of all namespaces": ("GET", "/api/v1/configmaps", True, {"verb": "WATCH", "scope": "cluster"}),
    "of one object": ("GET", f"{PATH}/a", True, {"verb": "WATCH", "scope": "resource"}),
    "of another group": (
        "GET",
        "/apis/apps/v1/deployments",
        True,
        {"verb": "WATCH", "scope": "cluster", "group": "apps", "resource": "deployments"},
    ),
    "a connection to a pod": (
        "GET",
        "/api/v1/namespaces/here/pods/p/proxy/x",
        False,
        {"verb": "CONNECT", "scope": "resource", "resource": "pods", "subresource": "proxy"},
    ),
    "whatever its method is": (
        "POST",
        "/api/v1/namespaces/here/pods/p/exec",
        False,
        {"verb": "CONNECT", "scope": "resource", "resource": "pods", "subresource": "exec"},
    ),
    "the log of a pod": (
        "GET",
        "/api/v1/namespaces/here/pods/p/log",
        False,
        {"verb": "CONNECT", "scope": "resource", "resource": "pods", "subresource": "log"},
    ),
}
LONG: Final = "apiserver_longrunning_requests"


def test_what_ends_with_an_error_is_open_no_more(metrics: RequestMetrics) -> None:
    with pytest.raises(RuntimeError, match="fault"), metrics.long_running(a_call("GET", PATH, is_watch=True)):
        raise RuntimeError("fault")
    assert [value for _, value in samples(metrics, LONG)] == [0]


@pytest.mark.parametrize(("method", "path", "is_watch", "labels"), LONG_RUNNING.values(), ids=LONG_RUNNING)
def test_what_runs_long_is_counted_while_it_does(
    metrics: RequestMetrics, method: str, path: str, is_watch: bool, labels: dict[str, str]
) -> None:
    """Source: k8s.io/apiserver, pkg/endpoints/metrics, RecordLongRunning."""
    call = a_call(method, path, is_watch=is_watch)
    assert samples(metrics, LONG) == []
    with metrics.long_running(call):
        assert samples(metrics, LONG) == [({**CREATES, **labels}, 1)]
        with metrics.long_running(call):
            assert samples(metrics, LONG) == [({**CREATES, **labels}, 2)]
        assert samples(metrics, LONG) == [({**CREATES, **labels}, 1)]
    assert samples(metrics, LONG) == [({**CREATES, **labels}, 0)]
    # When it has ended it is counted as a request, under the same labels.
    metrics.observe(call, 1)
    ((total, count),) = samples(metrics, "apiserver_request_total")
    assert (total, count) == ({**CREATES, **labels, "dry_run": "", "code": "200"}, 1)
    assert samples(metrics, LONG) == [({**CREATES, **labels}, 0)]


def test_what_is_served_no_more_is_not_counted_when_it_ends() -> None:
    """Its series go with the definition, and its watches end after that."""
    version = GroupVersion("example.com", "v1")
    widgets = replace(calls.CONFIG_MAPS, group_version=version, resource="widgets", is_custom=True)
    names = ServedNames()
    names.table = ServedTable(ResourceTable([calls.CONFIG_MAPS]).changed((), [widgets]))
    metrics = RequestMetrics(names)
    call = a_call("GET", PATH, is_watch=True)
    call.resource = call.found_resource = widgets
    with metrics.long_running(call):
        assert [labels["resource"] for labels, _ in samples(metrics, LONG)] == ["widgets"]
        metrics.forget((version, "widgets"))
        assert samples(metrics, LONG) == []
        with metrics.long_running(call):
            assert [value for _, value in samples(metrics, LONG)] == [1], "it is defined again"
    assert [value for _, value in samples(metrics, LONG)] == [0]


DRY_RUNS: Final = {
    "none": ("", ""),
    "one": ("?dryRun=All", "All"),
    "said twice": ("?dryRun=All&dryRun=All", "All"),
    "J08, without a value": ("?dryRun", "All"),
    "an empty value": ("?dryRun=", "All"),
    "another value": ("?dryRun=some", "invalid"),
    "one of several": ("?dryRun=All&dryRun=Some", "invalid"),
    "in lower case": ("?dryRun=all", "invalid"),
    "another parameter": ("?fieldManager=dryRun", ""),
}


@pytest.mark.parametrize(("query", "label"), DRY_RUNS.values(), ids=DRY_RUNS)
def test_dry_runs(metrics: RequestMetrics, query: str, label: str) -> None:
    """Whatever clients send, there are three values. Source: cleanDryRun of k8s.io/apiserver."""
    call = calls.call("POST", PATH + query)
    call.status = 201
    metrics.observe(call, 1)
    ((total, _),) = samples(metrics, "apiserver_request_total")
    assert total["dry_run"] == label


def test_events_of_watches_are_counted_by_their_sizes(metrics: RequestMetrics) -> None:
    sizes = metrics.event_sizes(calls.CONFIG_MAPS)
    sizes.observe(1)
    sizes.observe_all([1024, 1025, 1 << 20])
    assert metrics.event_sizes(calls.CONFIG_MAPS) is sizes
    labels = {"group": "", "version": "v1", "resource": "configmaps"}
    assert samples(metrics, "apiserver_watch_events_total") == [(labels, 4)]
    assert samples(metrics, "apiserver_watch_events_sizes_sum") == [(labels, 2050 + (1 << 20))]
    buckets = samples(metrics, "apiserver_watch_events_sizes_bucket")
    assert {float(each["le"]): value for each, value in buckets} == {
        1024: 2,
        **{1024.0 * 2**power: 3 for power in range(1, 8)},
        float("inf"): 4,
    }


BATCHES: Final = st.lists(st.sampled_from([b"", b"x" * 1_024, b"y" * 1_024, b"z" * 5_000]), max_size=3)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.booleans(), BATCHES, st.integers(1, 3), st.booleans())))
def test_events_that_many_watches_get_are_counted_for_each(
    sent: list[tuple[bool, list[bytes], int, bool]],
) -> None:
    """Whichever watches get the same one after another, and whenever /metrics is read."""
    metrics = RequestMetrics()
    resources = (calls.CONFIG_MAPS, calls.NAMESPACES)
    sizes = [metrics.event_sizes(each) for each in resources]
    expected: dict[str, list[int]] = {each.resource: [] for each in resources}
    for is_other, events, watches, is_read in sent:
        for _ in range(watches):
            metrics.count_events(sizes[is_other], [*events])
            expected[resources[is_other].resource] += map(len, events)
        if is_read:
            samples(metrics, "apiserver_watch_events_total")
    counts = samples(metrics, "apiserver_watch_events_total")
    assert {labels["resource"]: count for labels, count in counts} == {
        name: len(each) for name, each in expected.items()
    }
    assert {
        (labels["resource"], float(labels["le"])): count
        for labels, count in samples(metrics, "apiserver_watch_events_sizes_bucket")
    }.items() >= {((name, 1024.0), sum(size <= 1024 for size in each)) for name, each in expected.items()}
    sums = samples(metrics, "apiserver_watch_events_sizes_sum")
    assert {labels["resource"]: value for labels, value in sums} == {
        name: sum(each) for name, each in expected.items()
    }


async def ask(metrics: RequestMetrics, handle: Handler) -> None:
    """Make a request that a handler answers, and wait for its answer."""

    async def take(request: web.BaseRequest) -> web.StreamResponse:
        call = calls.call("POST", PATH)
        call.request, call.connection = request, cast(Connection, request.protocol)
        await measure(metrics)(errors_to_status()(handle))(call)
        return calls.sent(call)

    async with connected(Server(take)) as (reader, writer):
        writer.write(f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")


PODS: Final = GroupResource("", "pods")
# What is raised, the code of the answer, and whether the server has ended the request.
ENDINGS: Final[dict[str, tuple[Exception, int, bool]]] = {
    "there are too many": (TooManyRequests(), 429, True),
    "its time is up": (TimeoutError(), 504, True),
    "a webhook has left it no time": (Timeout.of_request(), 504, True),
    "not if what it is forwarded to cannot be reached": (BackendUnreachable("refused"), 503, False),
    "not after a fault": (RuntimeError("fault"), 500, False),
    "not if there are more Events than are wanted": (TooManyEvents(), 429, False),
    "not a revision that is too large": (
        Timeout.too_large_resource_version(requested=2, current=1),
        504,
        False,
    ),
    "not what it may not do": (Forbidden.to_resource(PODS, "a", "no"), 403, False),
    "not what is not there": (NotFound(PODS, "a"), 404, False),
}


@pytest.mark.parametrize(("error", "code", "is_terminated"), ENDINGS.values(), ids=ENDINGS)
async def test_requests_that_the_server_ends_are_counted(
    metrics: RequestMetrics, error: Exception, code: int, is_terminated: bool
) -> None:

    async def fail(call: ApiCall) -> None:
        raise error

    await ask(metrics, fail)
    expected = [({**CREATES, "code": str(code)}, 1.0)] if is_terminated else []
    assert samples(metrics, "apiserver_request_terminations_total") == expected
    assert samples(metrics, "apiserver_request_aborts_total") == []
    ((_, total),) = samples(metrics, "apiserver_request_total")
    ((_, timed),) = samples(metrics, "apiserver_request_duration_seconds_count")
    assert (total, timed) == (1, 0 if is_terminated and code == 429 else 1)


async def test_a_request_whose_time_is_up_is_ended(metrics: RequestMetrics) -> None:
    """Row Q05: `Deadlines` cancels it."""

    async def wait(call: ApiCall) -> None:
        call.has_timed_out = True
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    await ask(metrics, wait)
    assert samples(metrics, "apiserver_request_terminations_total") == [({**CREATES, "code": "504"}, 1.0)]


async def test_answers_that_are_cut_off_are_counted(metrics: RequestMetrics) -> None:

    async def fail(call: ApiCall) -> None:
        call.status = 200
        raise RuntimeError("fault")

    call = calls.call("POST", PATH)
    await measure(metrics)(errors_to_status()(fail))(call)
    assert call.ending is RequestEnding.ABORTED
    labels = {name: value for name, value in CREATES.items() if name != "component"}
    assert samples(metrics, "apiserver_request_aborts_total") == [(labels, 1.0)]
    assert samples(metrics, "apiserver_request_terminations_total") == []
