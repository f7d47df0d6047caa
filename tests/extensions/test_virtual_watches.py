"""Watches of virtual resources: functions yield the events, and clients get them as from stored resources."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from apiserver.extensions import Extension
from apiserver.extensions.hooks import Kind
from apiserver.extensions.host.event_stream import STREAMS_MAX, UNREAD_BYTES_MAX, EventStream
from apiserver.extensions.host.runner import Failure, HookFailed
from apiserver.extensions.host.virtual_objects import VirtualObject
from apiserver.extensions.host.virtual_registry import (
    Selectors,
    VirtualEvents,
    VirtualFunctions,
    VirtualRegistry,
)
from apiserver.extensions.host.worker_runner import RESTART, WorkerRunner
from apiserver.meta.errors import InternalError, TooManyRequests
from apiserver.meta.options import ListOptions
from apiserver.registry.selection import Selection
from apiserver.registry.stored_object import StoredObject, head_of
from apiserver.storage.interface import KeyRange
from apiserver.storage.watch_cache import EventType
from apiserver.testing import ApiServer
from tests.extensions.modules import watched_stocks
from tests.support.api import Api
from tests.support.eventually import until
from tests.support.kubectl import Kubectl, each_version, program
from tests.support.metrics import metric
from tests.support.server_process import ServerProcess

MODULE: Final = "tests.extensions.modules.watched_stocks"
GROUP: Final = "/apis/watched.example.com/v1"
EXTENSIONS: Final[dict[str, Sequence[Extension | str]]] = {
    "in the process of the test": [watched_stocks.app],
    "in a worker": [MODULE],
}
FAILED: Final = r'^Internal error occurred: extension "watched": watch_stocks \(watched_stocks.py:\d+\) '
ENDS: Final = "apiserver_extension_worker_ends_total"
FAILURES_TOTAL: Final = "apiserver_extension_failures_total"


@pytest.fixture(scope="module", params=EXTENSIONS.values(), ids=list(EXTENSIONS))
def either(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    with ApiServer(extensions=request.param) as server:
        yield server


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with ServerProcess(tmp_path, f"--extension={MODULE}").start() as server, Api(server) as api:
        yield api


def stocks(namespace: str) -> str:
    return f"{GROUP}/namespaces/{namespace}/stocks"


def events_of(server: ApiServer, path: str, query: str = "", timeout_s: int = 2) -> list[dict[str, Any]]:
    """Returns all events of a watch until its time is over, or the function ends."""
    code, text = server.request("GET", f"{path}?watch=1&timeoutSeconds={timeout_s}{query}")
    assert code == 200
    return [json.loads(line) for line in text.splitlines()] if isinstance(text, str) else [text]


def shown(events: Sequence[dict[str, Any]]) -> list[tuple[str, str, int]]:
    return [
        (each["type"], each["object"]["metadata"]["name"], each["object"]["spec"]["count"]) for each in events
    ]


CHANGES: Final = [
    ("ADDED", "apples", 2),
    ("ADDED", "pears", 1),
    ("MODIFIED", "pears", 2),
    ("DELETED", "pears", 2),
]


def test_a_watch_begins_with_the_list_and_goes_on_with_events(either: ApiServer) -> None:
    events = events_of(either, stocks("default"))
    assert shown(events) == CHANGES
    assert events[1]["object"] == {
        "apiVersion": "watched.example.com/v1",
        "kind": "Stock",
        "metadata": {"name": "pears", "labels": {"name": "pears"}, "namespace": "default"},
        "spec": {"fruit": "pear", "count": 1},
    }


WATCHES: Final = {
    "all namespaces": (
        f"{GROUP}/stocks",
        "",
        [*CHANGES[:2], ("ADDED", "melons", 0), *CHANGES[2:]],
    ),
    "a label": (stocks("default"), "&labelSelector=name=apples", CHANGES[:1]),
    "a name": (stocks("default"), "&fieldSelector=metadata.name=pears", CHANGES[1:]),
    # It is deleted for the client when it is not selected any more.
    "a field that changes": (
        stocks("default"),
        "&fieldSelector=spec.fruit=pear",
        [("ADDED", "pears", 1), ("DELETED", "pears", 2)],
    ),
    "any version": (stocks("default"), "&resourceVersion=0", CHANGES),
    "without initial events": (
        stocks("default"),
        "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
        CHANGES[1:],
    ),
    "a function that ends": (stocks("ends"), "", [("ADDED", "apples", 2), ("MODIFIED", "apples", 0)]),
    "a function that never yields": (stocks("quiet"), "", [("ADDED", "apples", 2)]),
}


@pytest.mark.parametrize("case", WATCHES)
def test_a_watch_has_the_events_that_are_selected(either: ApiServer, case: str) -> None:
    path, query, expected = WATCHES[case]
    assert shown(events_of(either, path, query)) == expected


def test_a_bookmark_follows_the_initial_events_if_the_client_asks_for_it(either: ApiServer) -> None:
    query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = events_of(either, stocks("quiet"), query)
    assert [each["type"] for each in events] == ["ADDED", "BOOKMARK"]
    metadata = events[1]["object"]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    # There is no history to resume from.
    [expired] = events_of(either, stocks("quiet"), f"&resourceVersion={metadata['resourceVersion']}")
    assert (expired["type"], expired["object"]["code"]) == ("ERROR", 410)


def test_events_are_complete_and_in_order(either: ApiServer) -> None:
    events = events_of(either, stocks("counts"), timeout_s=60)  # The function ends before.
    counts = [count for kind, _, count in shown(events) if kind == "MODIFIED"]
    assert counts == list(range(1_000))


def test_discovery_has_the_verb_but_no_hash_of_a_stored_version(either: ApiServer) -> None:
    _, found = either.request("GET", GROUP)
    [resource] = found["resources"]
    assert resource["verbs"] == ["get", "list", "watch"]
    assert "storageVersionHash" not in resource


@pytest.mark.kubectl
@pytest.mark.parametrize("version", each_version(-1))
def test_kubectl_shows_events(either: ApiServer, tmp_path: Path, version: str) -> None:
    kubectl = Kubectl(program(version), Path(either.kubeconfig), "default", tmp_path)
    process = kubectl.start("get", "stocks", "--watch-only")
    assert process.stdout is not None
    with process:
        lines = [process.stdout.readline().split() for _ in range(5)]
        process.kill()
    assert lines[0] == ["NAME", "COUNT"]
    assert ["pears", "2"] in lines


# ---- functions that fail


FAILURES: Final = {
    "fails": r"failed at watched_stocks.py:\d+: KeyError: 'warehouse'",
    "fails-early": r"failed at watched_stocks.py:\d+: KeyError: 'warehouse'",
    "number": 'failed: WrongResult: must yield pairs like ("ADDED", object), not int',
    "type": """failed: WrongResult: must yield "ADDED", "MODIFIED" or "DELETED", not 'CHANGED'""",
    "bookmark": """failed: WrongResult: must yield "ADDED", "MODIFIED" or "DELETED", not 'BOOKMARK'""",
    "object": 'failed: WrongResult: must yield pairs like ("ADDED", object), not tuple',
    "invalid": 'has returned an invalid result: object.spec.count: Invalid value: "string"',
    "nameless": "has returned an invalid result: object.metadata.name: Required value",
    "set": "failed: TypeError: Type is not JSON serializable: set",
    "huge": r"failed: WrongResult: must not yield an event of \d+ bytes",
    "text-fails": r"failed at watched_stocks.py:\d+: TextFails: <exception str\(\) failed>$",
    "surrogate": r"failed at watched_stocks.py:\d+: ValueError: \\ud800$",
    "huge-refusal": r"failed at watched_stocks.py:\d+: x{1024}$",
}


@pytest.mark.parametrize("namespace", FAILURES)
def test_a_function_that_fails_ends_the_watch_with_an_error(either: ApiServer, namespace: str) -> None:
    *_, last = events_of(either, stocks(namespace), timeout_s=60)  # The function ends before.
    assert (last["type"], last["object"]["code"]) == ("ERROR", 500)
    says = FAILURES[namespace]
    says = says if "\\" in says else re.escape(says)
    assert re.search(FAILED + says, last["object"]["message"]), last["object"]["message"]


def test_a_function_refuses_further_events(either: ApiServer) -> None:
    *_, last = events_of(either, stocks("denies"), timeout_s=60)
    assert (last["type"], last["object"]["code"], last["object"]["message"]) == ("ERROR", 403, "closed")


def running(api: Api) -> int:
    [found] = api.get(stocks("running")).ok()["items"]
    return int(found["spec"]["count"])


def test_a_function_ends_when_its_client_goes(api: Api) -> None:
    with api.watch(f"{stocks('quiet')}?watch=1") as events:
        assert events.next()["type"] == "ADDED"
        assert running(api) == 1
    until(lambda: running(api), lambda count: count == 0, "cancelled")
    assert metric(api, ENDS, extension="watched") == 0


def test_a_client_that_does_not_read_holds_up_only_its_function(api: Api) -> None:
    with api.watch(f"{stocks('floods')}?watch=1") as floods:
        for _ in range(20):
            assert api.get(f"{stocks('default')}/apples").status == 200
        assert floods.next()["type"] == "ADDED"
        assert [floods.next()["type"] for _ in range(200)] == ["MODIFIED"] * 200
    until(lambda: running(api), lambda count: count == 0, "cancelled")


def test_a_worker_that_ends_ends_its_watches_cleanly(api: Api) -> None:
    with api.watch(f"{stocks('quiet')}?watch=1") as quiet:
        assert quiet.next()["type"] == "ADDED"
        with api.watch(f"{stocks('leaves')}?watch=1") as leaves:
            assert [each["type"] for each in leaves] == ["ADDED"]
        assert list(quiet) == []
    assert metric(api, ENDS, extension="watched") == 1
    assert api.get(stocks("default")).status == 200


def test_a_reload_ends_watches_cleanly(api: Api) -> None:
    with api.watch(f"{stocks('quiet')}?watch=1") as quiet:
        assert quiet.next()["type"] == "ADDED"
        os.kill(api.server.pid, signal.SIGHUP)
        assert list(quiet) == []
    assert api.get(stocks("default")).status == 200
    assert metric(api, ENDS, extension="watched") == 0


def test_a_function_that_loops_is_ended_by_the_next_call(api: Api) -> None:
    with api.watch(f"{stocks('loops')}?watch=1") as loops:
        assert loops.next()["type"] == "ADDED"
        until(lambda: api.get(stocks("default")), lambda answer: answer.status == 500, "a late call")
        assert list(loops) == []
    until(lambda: api.get(stocks("default")), lambda answer: answer.status == 200, "a new worker")
    assert metric(api, ENDS, extension="watched") == 1


def test_a_function_that_blocks_its_worker_is_blamed_and_its_next_worker_starts_later(api: Api) -> None:
    def block() -> str:
        """Returns why another request of the extension has failed."""
        with api.watch(f"{stocks('loops')}?watch=1") as loops:
            assert loops.next()["type"] == "ADDED"
            # On a busy machine, a call may be late before the function begins to loop.
            late = until(
                lambda: api.get(stocks("default")),
                lambda answer: answer.status == 500 and "blocks" in answer.message,
                "late",
            )
            assert list(loops) == []
        return late.message

    blamed = r"watch_stocks \(watched_stocks.py:\d+\) blocks"
    first = block()
    assert re.search(rf": list_stocks \(.*\) could not run within 2 s: {blamed} the worker$", first), first
    until(lambda: api.get(stocks("default")), lambda answer: answer.status == 200, "a new worker")
    block()
    until(lambda: api.get(stocks("default")), lambda answer: answer.status == 200, "a new worker")
    ends = re.findall(r"the next one starts in (\S+) s: (.*)", api.server.stderr)
    assert [float(delay) for delay, _ in ends] == [0, RESTART.base_s]
    assert all(re.search(f"^{blamed} it", why) for _, why in ends), ends
    labels = {"extension": "watched", "hook": "list_stocks"}
    assert metric(api, FAILURES_TOTAL, **labels, failure="not_running") == 2


def test_a_function_that_does_not_stop_ends_its_worker(api: Api) -> None:
    with api.watch(f"{stocks('stays')}?watch=1") as stays:
        assert stays.next()["type"] == "ADDED"
    until(lambda: metric(api, ENDS, extension="watched"), lambda ends: ends == 1, "the end of the worker")
    until(lambda: running(api), lambda count: count == 0, "a new worker")


# ---- bounds


# The sizes of events, in bytes → how many of them are taken before one is refused.
UNREAD: Final = {
    "few large ones": ([UNREAD_BYTES_MAX - 1, 16 << 20, 1], 2),
    "many small ones": ([1] * 65, 64),
    "as much as a worker sends": ([16 * 1024 + 64] * 64, 64),
}


@pytest.mark.parametrize("case", UNREAD)
async def test_a_stream_refuses_more_events_than_a_function_may_send(case: str) -> None:
    sizes, taken = UNREAD[case]
    stream = EventStream(lambda _: None, lambda: None)
    assert [stream.receive({}, each) for each in sizes] == [True] * taken + [False] * (len(sizes) - taken)
    assert len(await stream.read()) == taken
    assert stream.receive({}, sizes[0]), "those before are read"


async def test_watches_that_are_beginning_are_counted() -> None:
    runner = WorkerRunner(MODULE, lambda _: {}, lambda *_: None)
    await runner.start()
    try:
        hook = next(each for each in runner.info.hooks if each.kind is Kind.WATCH)
        call = json.dumps({"request": {"namespace": "quiet"}}).encode()
        begun = [asyncio.create_task(runner.watch(hook, call)) for _ in range(3)]
        await asyncio.sleep(0)
        assert (runner.streams_open, any(each.done() for each in begun)) == (3, False)
        await asyncio.gather(*begun)
        assert runner.streams_open == 3
    finally:
        await runner.close()
    assert runner.streams_open == 0


NAMES: Final = ("a", "b", "c")
HEAD: Final = head_of("v1", "Stock")


def watch_with_selector(added_max: int, *events: tuple[EventType, str]) -> VirtualEvents:
    """Returns the events of a watch whose selector selects everything, for a list with the object a."""

    async def event(_: object, given: tuple[EventType, str], __: str) -> tuple[EventType, StoredObject]:
        kind, name = given
        return kind, VirtualObject(name, HEAD, b"")

    async def read() -> Sequence[tuple[EventType, str]]:
        return events

    def invalid(why: str) -> HookFailed:
        return HookFailed(why, Failure.ERROR)

    selection = Selection(KeyRange("", "~"), cast(Any, None), cast(Any, lambda _: True))
    objects, hook, source = cast(
        Any, [SimpleNamespace(event=event), SimpleNamespace(invalid=invalid), SimpleNamespace(read=read)]
    )
    watch = VirtualEvents(objects, hook, source, "", selection, added_max)
    watch.begin_with([VirtualObject("a", HEAD, b"")])
    return watch


async def test_a_watch_with_a_selector_remembers_a_bounded_number_of_objects() -> None:
    added = [(EventType.ADDED, name) for name in NAMES]
    found = await watch_with_selector(2, *added).read()
    assert found is not None
    assert [each.key for _, each in found] == [*NAMES]
    found = await watch_with_selector(1, *added[:2], (EventType.DELETED, "b"), added[2]).read()
    assert found is not None
    assert len(found) == 4
    with pytest.raises(InternalError, match="has added more than 1 objects to a watch"):
        await watch_with_selector(1, *added).read()


async def test_other_requests_go_on_between_the_events_of_a_batch() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    await watch_with_selector(1, *[(EventType.MODIFIED, "a")] * 64).read()
    running.cancel()
    assert turns >= 64


async def test_an_extension_has_a_bounded_number_of_watches() -> None:
    hook = SimpleNamespace(runner=SimpleNamespace(streams_open=STREAMS_MAX), extension="watched")
    unused = cast(Any, SimpleNamespace(keys=None))
    functions = VirtualFunctions(unused, cast(Any, {Kind.WATCH: hook}))
    options = ListOptions.for_watch({}, frozenset(), "meta.k8s.io")
    with pytest.raises(TooManyRequests, match="too many watches of extension watched: at most 1000"):
        await VirtualRegistry(functions, unused, unused).watch("", "", options, Selectors("", ""))
