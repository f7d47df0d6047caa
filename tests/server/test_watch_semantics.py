"""Where a watch begins, what it is sent, and when it ends: every cell of its table, on every kind of server.

Rows J03-J05, J10, J11, K26-K28, K38-K43, M01-M08, M11. The servers are those of test_resource_versions.py.
Frames, slow clients, and lists followed by watches are in test_watch.py, selectors in test_selectors.py.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import Answer, Api, WatchEvents
from tests.support.eventually import WITHIN_S
from tests.support.four_servers import (
    ALL_KINDS,
    BOTH_SETTINGS,
    ETCD_KINDS,
    JUNK,
    MATCHES,
    NEVER,
    VERSIONS,
    History,
    Servers,
    World,
    assert_refused,
    assert_too_large,
    event,
    make_world,
    query_of,
    servers_with,
)
from tests.support.raw import raw_connection
from tests.support.server_process import ServerProcess

ENDS_STATE: Final = {"k8s.io/initial-events-end": "true"}
STREAMED: Final = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


lasting = servers_with(NEVER)


@pytest.fixture(scope="module", params=ALL_KINDS)
def api(request: pytest.FixtureRequest, lasting: Servers) -> Api:
    return lasting.get(request.param)


@pytest.fixture(scope="module")
def world(api: Api) -> World:
    return make_world(api)


# Two changes are remembered.
forgetful = servers_with(NEVER, "--default-watch-cache-size=2")


@pytest.fixture(scope="module")
def lost_world(forgetful: Servers) -> World:
    """One whose old version a watch cannot begin at any more."""
    return make_world(forgetful.get("embedded"))


# ---- the table

COLUMNS: Final = ("", "sendInitialEvents=true", "sendInitialEvents=false")
BOOKMARKS: Final = ("", "allowWatchBookmarks=true")

# resourceVersion, resourceVersionMatch -> the watch without sendInitialEvents, with true, with false.
#   state   synthetic ADDED events, a bookmark if bookmarks are wanted, then changes
#   since   the changes after that version     live    changes from now on
#   quiet   nothing before its time is up      late    200, an ERROR event that says 410, the end
#   wait    504 after a wait                   junk    400, no version at all
#   I U N   422: see CAUSES
WATCHES: Final = {
    "K26, unset unset": "state I     I",
    "K27, 0 unset": "state I     I",
    "K28, old unset": "since I     I",
    "M08, gone unset": "late  I     I",
    "K38, future unset": "quiet I     I",
    "J11, junk unset": "junk  I     I",
    "J03 K39 K40, unset NotOlderThan": "U     state live",
    "J03 K39, 0 NotOlderThan": "U     state live",
    "J03 K41, old NotOlderThan": "U     state since",
    "J03 K41 M08, gone NotOlderThan": "U     state late",
    "J03 K37 K38, future NotOlderThan": "U     wait  quiet",
    "J03 J11, junk NotOlderThan": "U     junk  junk",
    **{f"J03, {v} {m}": "UN    IN    IN" for v in VERSIONS for m in ("Exact", "other")},
}
CAUSES: Final = {
    "I": (
        "FieldValueForbidden",
        "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
    ),
    "U": (
        "FieldValueForbidden",
        "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
    ),
    "N": ("FieldValueNotSupported", 'Unsupported value: "{}": supported values: "NotOlderThan"'),
}


def cells_of(name: str) -> Iterator[tuple[str, str, bool]]:
    """Each cell of a row, with the query but for the version, and whether bookmarks are wanted."""
    for cell, column in zip(WATCHES[name].split(), COLUMNS, strict=True):
        for bookmarks in BOOKMARKS:
            yield cell, "&".join(filter(None, ("watch=1", column, bookmarks))), bool(bookmarks)


def words(name: str) -> tuple[str, str]:
    version, match = name.rpartition(", ")[2].split()
    return version, match


def test_the_table_is_complete() -> None:
    assert sorted(map(words, WATCHES)) == sorted(itertools.product(VERSIONS, MATCHES))
    assert all(len(list(cells_of(name))) == len(COLUMNS) * len(BOOKMARKS) for name in WATCHES)


def end_of_state(events: WatchEvents) -> int:
    """Row M05: a bookmark holds its version, and here the mark, in the kind that is watched."""
    bookmark = events.next()
    revision = bookmark["object"]["metadata"].pop("resourceVersion")
    assert bookmark == {
        "type": "BOOKMARK",
        "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"annotations": ENDS_STATE}},
    }
    return int(revision)


def check_cell(world: World, cell: str, target: str, *, match: str, has_bookmarks: bool) -> None:
    history = world.history
    match cell:
        case "state" | "since" | "live":
            newest = history.newest
            with history.api.watch(target) as events:
                assert events.status == 200, events.body()
                if cell == "state":
                    for item in history.at(newest):
                        assert events.next() == event("ADDED", item)
                    if has_bookmarks:
                        assert end_of_state(events) >= newest
                elif cell == "since":
                    for expected in history.events_after(world.old):
                        assert events.next() == expected
                history.put("next")
                history.delete("next")
                for expected in history.events_after(newest):
                    assert events.next() == expected
        case "late":
            with history.api.watch(target) as events:
                assert events.status == 200
                (only,) = events
            assert only["type"] == "ERROR"
            message = only["object"].pop("message")
            assert re.fullmatch(rf"too old resource version: {world.old} \([1-9][0-9]*\)", message)
            status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
            assert only["object"] == {**status, "reason": "Expired", "code": 410}
        case "junk":
            assert_refused(history.api.get(target), 400, "BadRequest", JUNK)
        case causes:
            expected_causes = [
                {"reason": reason, "message": message.format(MATCHES[match]), "field": "resourceVersionMatch"}
                for reason, message in map(CAUSES.__getitem__, causes)
            ]
            answer = history.api.get(target)
            details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": expected_causes}
            assert_refused(answer, 422, "Invalid", 'ListOptions.meta.k8s.io "" is invalid: .*', details)


def check_row(world: World, name: str) -> None:
    version, match = words(name)
    for cell, query, has_bookmarks in cells_of(name):
        if cell not in ("quiet", "wait"):
            target = f"{world.history.path}?{query_of(world, version, match, query)}"
            check_cell(world, cell, target, match=match, has_bookmarks=has_bookmarks)


@pytest.mark.parametrize("name", [name for name in WATCHES if words(name)[0] != "gone"])
def test_where_a_watch_begins(world: World, name: str) -> None:
    check_row(world, name)


@pytest.mark.parametrize("name", [name for name in WATCHES if words(name)[0] == "gone"])
def test_where_a_watch_of_what_is_gone_begins(lost_world: World, name: str) -> None:
    """The history of watches is in memory, the same over any store."""
    check_row(lost_world, name)


@pytest.mark.parametrize("kinds", BOTH_SETTINGS)
def test_a_watch_of_the_future(lasting: Servers, kinds: tuple[str, str]) -> None:
    """Rows K37, K38: changes are waited for until the time is up, a state for three seconds."""

    def quiet(one: tuple[ServerProcess, str]) -> list[Any]:
        with Api(one[0]) as api, api.watch(f"{one[1]}&timeoutSeconds=1") as events:
            assert events.status == 200, events.body()
            return list(events)

    def wait(one: tuple[ServerProcess, str]) -> Answer:
        with Api(one[0]) as api:
            return api.get(one[1])

    targets: dict[str, list[tuple[ServerProcess, str]]] = {"quiet": [], "wait": []}
    for world in (make_world(lasting.get(kind)) for kind in kinds):
        for name in WATCHES:
            for cell, query, _ in cells_of(name):
                if cell in targets:
                    target = f"{world.history.path}?{query_of(world, *words(name), query)}"
                    targets[cell].append((world.history.api.server, target))
    with ThreadPoolExecutor(12) as pool:
        answers = pool.map(wait, targets["wait"])
        assert list(pool.map(quiet, targets["quiet"])) == [[]] * 8
        for answer in answers:
            assert_too_large(answer)


def test_a_watch_of_the_future_goes_on_when_it_comes(api: Api) -> None:
    """Rows K38, K41: a watch is told what comes after its version, a streamed list shows it."""
    history = History.begin(api)
    start = history.put("a") + 2
    path = f"{history.path}?watch=1&resourceVersion={start}"
    received: list[Any] = []
    began = threading.Event()

    def stream() -> None:
        with Api(api.server) as other:
            began.set()
            with other.watch(f"{path}&{STREAMED}") as events:
                received.extend(events.next() for _ in range(2))
                received.append(end_of_state(events))

    thread = threading.Thread(target=stream)
    with api.watch(path) as events:
        thread.start()
        assert began.wait(WITHIN_S)
        for name in "ab":
            history.put(name)
        shown = [event("ADDED", item) for item in history.at(start)]
        thread.join()
        history.put("c")
        assert events.next() == event("ADDED", history.states[-1]["c"])
    assert received[:-1] == shown
    assert received[-1] >= start


@pytest.mark.etcd
@pytest.mark.parametrize("kind", ETCD_KINDS)
def test_a_streamed_list_is_a_consistent_read(lasting: Servers, kind: str) -> None:
    """Row K40: as new as the store was when it began, whoever wrote there and whatever."""
    api = lasting.get(kind)
    history = History.begin(api)
    history.put("a")
    for _ in range(3):
        lasting.etcd.ctl("put", "/elsewhere", "x")
        revision = json.loads(lasting.etcd.ctl("get", "/elsewhere", "-w", "json"))["header"]["revision"]
        with api.watch(f"{history.path}?watch=1&{STREAMED}") as events:
            assert events.next() == event("ADDED", history.states[-1]["a"])
            assert end_of_state(events) >= revision


# ---- what concerns a watch

ITEM: Final = {
    "I11: by its path": "{path}/d?watch=1&resourceVersion={old}",
    "a selector of its name": "{path}?watch=1&resourceVersion={old}&fieldSelector=metadata.name%3Dd",
    "and of its namespace": (
        "/api/v1/configmaps?watch=1&resourceVersion={old}"
        "&fieldSelector=metadata.name%3Dd,metadata.namespace%3D{namespace}"
    ),
}


@pytest.mark.parametrize("target", ITEM.values(), ids=ITEM)
def test_the_history_of_one_object(world: World, target: str) -> None:
    """Row K28: its changes since then, and those to come, and nobody else's."""
    history = world.history
    namespace = history.path.split("/")[4]
    with history.api.watch(target.format(path=history.path, old=world.old, namespace=namespace)) as events:
        for name in "cdcd":
            history.put(name)
        for expected in history.events_after(world.old):
            if expected["object"]["metadata"]["name"] == "d":
                assert events.next() == expected


def test_a_selection_over_the_past(api: Api) -> None:
    """Row M06: what enters is ADDED; what leaves is DELETED, as it was, at the version of the change."""
    history = History.begin(api)
    path, start = f"{history.path}/a", history.newest
    documents = [api.post(history.path, {"metadata": {"name": "a", "labels": {"in": "no"}}}).ok()]
    steps = ({"in": "yes"}, {"in": "yes", "other": "x"}, {"in": None}, {"in": "yes"})
    documents += [api.patch(path, {"metadata": {"labels": labels}}).ok() for labels in steps]
    api.delete(path).ok()
    gone = int(api.get(history.path).ok()["metadata"]["resourceVersion"])
    _, entered, changed, left, again = documents

    def deleted(document: dict[str, Any], revision: Any) -> dict[str, Any]:
        meta = document["metadata"] | {"resourceVersion": str(revision)}
        return {"type": "DELETED", "object": document | {"metadata": meta}}

    with api.watch(f"{history.path}?watch=1&resourceVersion={start}&labelSelector=in%3Dyes") as events:
        assert events.next() == {"type": "ADDED", "object": entered}
        assert events.next() == {"type": "MODIFIED", "object": changed}
        assert events.next() == deleted(changed, left["metadata"]["resourceVersion"])
        assert events.next() == {"type": "ADDED", "object": again}
        assert events.next() == deleted(again, gone)


# ---- the end of a watch


@pytest.mark.etcd
def test_the_last_bookmark(lasting: Servers) -> None:
    """Row M05: shortly before the end, with what others wrote until then; see also test_watch.py."""
    apis = [lasting.get(param.values[0]) for param in ETCD_KINDS]  # type: ignore[arg-type]
    history = History.begin(apis[0])
    path = (
        f"{history.path}?watch=1&timeoutSeconds=3&allowWatchBookmarks=true&resourceVersion={history.newest}"
    )
    with apis[0].watch(path) as here, apis[1].watch(path) as there:
        made = apis[0].post(history.path.replace("configmaps", "secrets"), {"metadata": {"name": "s"}}).ok()
        for events in (here, there):
            (only,) = events
            revision = only["object"]["metadata"].pop("resourceVersion")
            assert only == {
                "type": "BOOKMARK",
                "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}},
            }
            assert int(revision) >= int(made["metadata"]["resourceVersion"])


@pytest.mark.slow
@pytest.mark.longest
def test_a_bookmark_every_minute(lasting: Servers) -> None:
    """Row M05."""
    api = lasting.get("embedded")
    history = History.begin(api)
    target = f"{history.path}?watch=1&timeoutSeconds=75&allowWatchBookmarks=true"
    with raw_connection(api.server) as connection:
        connection.settimeout(75)
        connection.sendall(f"GET {target} HTTP/1.0\r\nAuthorization: Bearer admin-token\r\n\r\n".encode())
        file, last, gaps = connection.makefile("rb"), time.monotonic(), []
        for line in file:
            if line.startswith(b"{"):
                assert json.loads(line)["type"] == "BOOKMARK"
                gaps.append(time.monotonic() - last)
                last = time.monotonic()
                history.put("a")  # in between there may be changes, which count for nothing here
                assert json.loads(file.readline())["type"] in ("ADDED", "MODIFIED")
    # The first ends the state. The last comes before the end, which it would be too late after.
    assert len(gaps) == 3
    assert max(gaps) < 70
    assert time.monotonic() - last < 30


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    data = tmp_path_factory.mktemp("impatient") / "data"
    flags = ("--min-request-timeout=1", "--group-domain=example.org")
    with ServerProcess(data, *flags) as server, Api(server) as api:
        yield api


def lifetime_s(api: Api, query: str) -> float:
    with Api(api.server) as other:
        began = time.monotonic()
        with other.watch(f"/api/v1/namespaces/default/secrets?watch=1&{query}") as events:
            assert events.status == 200, events.body()
            assert list(events) == []
        return time.monotonic() - began


def test_how_long_a_watch_lasts(impatient: Api) -> None:
    """Row J10: as asked for, or between once and twice the least, not all the same."""
    negative = [lifetime_s(impatient, "timeoutSeconds=-1") for _ in range(3)]
    with ThreadPoolExecutor(11) as pool:
        asked = pool.submit(lifetime_s, impatient, "timeoutSeconds=3")
        none = pool.submit(lifetime_s, impatient, "timeoutSeconds=0")
        unasked = list(pool.map(lambda _: lifetime_s(impatient, ""), range(9)))
    # A client sees an end some time after it, on a machine with much to do a long time.
    assert min(negative) < 1
    assert 3 <= asked.result() < WITHIN_S
    assert 1 <= none.result() < WITHIN_S
    assert min(unasked) >= 1
    assert statistics.median(unasked) < 3
    assert max(unasked) - min(unasked) > 0.05


def test_the_longest_timeout(impatient: Api) -> None:
    """Row J10: the longest that can be asked for is no mistake, and no end."""
    with impatient.watch(
        f"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0&timeoutSeconds={2**63 - 1}"
    ) as events:
        made = impatient.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}}).ok()
        assert events.next() == {"type": "ADDED", "object": made}


def test_another_group_domain(impatient: Api) -> None:
    """Rows K39, K35: the words of the protocol are the deployment's."""
    path = "/api/v1/namespaces/default/podtemplates"  # there are none
    with impatient.watch(f"{path}?watch=1&{STREAMED}") as events:
        assert events.next()["object"]["metadata"]["annotations"] == {
            "example.org/initial-events-end": "true"
        }
    refused = impatient.get(f"{path}?resourceVersionMatch=Exact").json
    assert refused["details"]["group"] == "meta.example.org"
    token = impatient.get("/api/v1/namespaces?limit=1").ok()["metadata"]["continue"]
    assert json.loads(base64.urlsafe_b64decode(token + "=="))["v"] == "meta.example.org/v1"


def test_watches_over_a_restart(tmp_path: Path) -> None:
    """Rows M07, M08: what memory lost is told, never passed over; who had seen all goes on."""
    with ServerProcess(tmp_path / "data", NEVER) as server:
        with Api(server) as api:
            history = History.begin(api)
            start = history.put("a")
            newest = history.put("b")
        server.stop()
        server.start()
        with Api(server) as api:
            for after in (start, newest):
                with api.watch(f"{history.path}?watch=1&resourceVersion={after}") as events:
                    history.put("c", api)
                    first = events.next()
                    if first["type"] == "ERROR":
                        assert (first["object"]["code"], after) == (410, start)
                    else:
                        assert first == history.events_after(after)[0]


@pytest.mark.slow
def test_the_state_and_what_follows_fit_together(tmp_path: Path) -> None:
    """Rows K26, K44, M08: who asks for no version is never told that it is too old.

    While a large state is read, others write more than is remembered.
    """
    count, watches = 3_000, 60
    with ServerProcess(tmp_path / "data", NEVER, "--default-watch-cache-size=2") as server:
        path, is_over = "/api/v1/namespaces/default/configmaps", threading.Event()

        def create(part: int) -> None:
            with Api(server) as api:
                for number in range(part, count, 4):
                    api.post(path, {"metadata": {"name": f"n{number}"}}).ok()

        def change(name: str) -> None:
            with Api(server) as api:
                for number in itertools.count():
                    if is_over.is_set():
                        break
                    api.patch(f"{path}/{name}", {"data": {"k": str(number)}}).ok()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(create, range(4)))
            writers = [pool.submit(change, name) for name in ("n1", "n2", "n3")]
            try:
                with Api(server) as api:
                    for _ in range(watches):
                        with api.watch(f"{path}?watch=1") as events:
                            assert events.status == 200, events.body()
                            kinds = {each["type"] for each in itertools.islice(events, count + 3)}
                        assert kinds <= {"ADDED", "MODIFIED"}
            finally:
                is_over.set()
            for writer in writers:
                writer.result()
