"""The state that gets and lists show: every cell of the resourceVersion tables, on every kind of server.

Rows C02-C08, J01-J06, J10, J11, K01-K37, K45, K46, Q01, Q02, Q05. The four servers (two stores, each with
ListFromCacheSnapshot and without) must not be told apart. What options mean before any server is asked
stands in tests/unit/meta/test_options.py, pages in test_chunking.py, malformed queries in test_bad_input.py.
https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import re
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.cli.config import Config
from apiserver.storage.watch_cache import HistoryLimits
from tests.support.api import Answer, Api, until_status
from tests.support.eventually import eventually, until
from tests.support.four_servers import (
    ALL_KINDS,
    BOTH_SETTINGS,
    CONFIGMAPS,
    ETCD_KINDS,
    FUTURE,
    JUNK,
    KINDS,
    MATCHES,
    NEVER,
    VERSIONS,
    History,
    Servers,
    World,
    assert_refused,
    assert_too_large,
    make_world,
    query_of,
    servers_with,
)
from tests.support.raw import raw_connection
from tests.support.rbac import bind
from tests.support.server_process import ServerProcess

# ---- the tables


# Stores are never compacted, and caches keep eight changes.
lasting = servers_with(NEVER, "--default-watch-cache-size=8")


# Stores are compacted every tenth of a second.
forgetful = servers_with("--etcd-compaction-interval=100ms", "--default-watch-cache-size=2")


@pytest.fixture(scope="module", params=ALL_KINDS)
def api(request: pytest.FixtureRequest, lasting: Servers) -> Api:
    return lasting.get(request.param)


@pytest.fixture(scope="module")
def world(api: Api) -> World:
    return make_world(api)


@pytest.fixture(scope="module", params=ALL_KINDS)
def lost_world(request: pytest.FixtureRequest, forgetful: Servers) -> World:
    """A history whose old version has been compacted."""
    world = make_world(forgetful.get(request.param))
    query = f"resourceVersion={world.old}&resourceVersionMatch=Exact"
    until_status(410, lambda: world.history.api.get(f"{world.history.path}?{query}"))
    return world


COLUMNS: Final = ("", "limit=2", "continue={token}", "continue={token}&limit=2")

# resourceVersion, resourceVersionMatch -> what a list without paging is, with a limit, a token, or both.
#   now     Most Recent                       page    Continuation: the rest of the old version's list
#   any     Any                               lost    410, with a token to go on inconsistently
#   newer   Not older than                    mixed   400, a version beside a token
#   then    Exact                             junk    400, no version at all
#   gone    410                               A T Z S 422: see CAUSES
#   wait    504 after a wait                  ahead   504 at once
LISTS: Final = {
    "K04 K07 K10, unset unset": "now   now   page  page",
    "K05 K08 K11, 0 unset": "any   any   page  page",
    "K06 K09 K12, old unset": "newer then  mixed mixed",
    "K31, gone unset": "newer gone  mixed mixed",
    "K37, future unset": "wait  ahead mixed mixed",
    "J11, junk unset": "junk  junk  mixed mixed",
    "K13 K16, unset Exact": "A     A     AT    AT",
    "K14 K17, 0 Exact": "Z     Z     TZ    TZ",
    "K15 K18 K25, old Exact": "then  then  T     T",
    "K31, gone Exact": "gone  gone  T     T",
    "K37, future Exact": "ahead ahead T     T",
    "J11, junk Exact": "junk  junk  T     T",
    "K19 K22, unset NotOlderThan": "A     A     AT    AT",
    "K20 K23, 0 NotOlderThan": "any   any   T     T",
    "K21 K24, old NotOlderThan": "newer newer T     T",
    "K21 K24, gone NotOlderThan": "newer newer T     T",
    "K37, future NotOlderThan": "wait  wait  T     T",
    "J11, junk NotOlderThan": "junk  junk  T     T",
    "J01 J02, unset other": "AS    AS    ATS   ATS",
    "J02, 0 other": "S     S     TS    TS",
    "J02, old other": "S     S     TS    TS",
    "J02, gone other": "S     S     TS    TS",
    "J02, future other": "S     S     TS    TS",
    "J02, junk other": "S     S     TS    TS",
}
CAUSES: Final = {
    "A": (
        "FieldValueForbidden",
        "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
    ),
    "T": ("FieldValueForbidden", "Forbidden: resourceVersionMatch is forbidden when continue is provided"),
    "Z": (
        "FieldValueForbidden",
        'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
    ),
    "S": (
        "FieldValueNotSupported",
        'Unsupported value: "exact": supported values: "Exact", "NotOlderThan", ""',
    ),
}


def test_the_table_is_complete() -> None:
    cells = [tuple(name.rpartition(", ")[2].split()) for name in LISTS]
    assert sorted(cells) == sorted(itertools.product(VERSIONS, MATCHES))
    assert {len(columns.split()) for columns in LISTS.values()} == {len(COLUMNS)}


def timed_get(api: Api, target: str) -> tuple[Answer, float]:
    """Returns the answer, and the seconds until it came."""
    began = time.monotonic()
    return api.get(target), time.monotonic() - began


def check_cell(world: World, cell: str, query: str, limit: int) -> None:
    history, old = world.history, world.old
    before = history.newest
    target = f"{history.path}?{query}"
    answer, took_s = timed_get(history.api, target)
    match cell:
        case "now" | "newer":
            assert history.check_list(answer, limit=limit) >= before
        case "any":
            history.check_list(answer, limit=limit, rewinds=True)
        case "then":
            assert history.check_list(answer, limit=limit) == old
        case "page":
            assert history.check_list(answer, skipped=1, limit=limit) == old
        case "mixed":
            message = "specifying resource version is not allowed when using continue"
            assert_refused(answer, 400, "BadRequest", message)
        case "junk":
            assert_refused(answer, 400, "BadRequest", JUNK)
        case "gone":
            message = r"The resourceVersion for the provided list is too old\."
            assert_refused(answer, 410, "Expired", message)
        case "lost":
            check_lost_token(world, answer)
        case "ahead":
            assert_too_large(answer)
            # Any process may be held up for a while on a machine with much else to do, but not each time.
            assert took_s < 2.5 or min(timed_get(history.api, target)[1] for _ in range(4)) < 2.5
        case causes:
            messages = [CAUSES[letter] for letter in causes]
            details = {"group": "meta.k8s.io", "kind": "ListOptions"}
            expected = [{"reason": r, "message": m, "field": "resourceVersionMatch"} for r, m in messages]
            fields = ", ".join(f"resourceVersionMatch: {m}" for _, m in messages)
            text = f'ListOptions.meta.k8s.io "" is invalid: {f"[{fields}]" if len(messages) > 1 else fields}'
            assert_refused(answer, 422, "Invalid", re.escape(text), details | {"causes": expected})


def check_lost_token(world: World, answer: Answer) -> None:
    """Rows K35, K46: the token in the answer goes on from the same place at whatever is most recent."""
    history = world.history
    token = answer.json["metadata"].pop("continue")
    assert_refused(answer, 410, "Expired", "The provided continue parameter is too old to display .*")
    seen: list[dict[str, Any]] = []
    revisions = set()
    while token:  # its first page is of now, and those after it of the same moment
        page = history.api.get(f"{history.path}?limit=1&continue={token}").ok()
        seen += page["items"]
        revisions.add(int(page["metadata"]["resourceVersion"]))
        token = page["metadata"].get("continue", "")
    first_seen = history.at(world.old)[0]["metadata"]["name"]
    newest = history.at(history.newest)
    assert seen == [item for item in newest if item["metadata"]["name"] > first_seen]
    (revision,) = revisions
    assert revision >= history.newest


LASTING: Final = {name: row for name, row in LISTS.items() if " gone " not in name}


@pytest.mark.parametrize("name", LASTING)
def test_how_a_list_is_read(world: World, name: str) -> None:
    """Rows C02-C06, C08, K04-K25, K30: the state of the list's own version, and nothing but it."""
    version, match = name.rpartition(", ")[2].split()
    for cell, paging in zip(LISTS[name].split(), COLUMNS, strict=True):
        if cell != "wait":
            check_cell(world, cell, query_of(world, version, match, paging), 2 if "limit" in paging else 0)


@pytest.mark.parametrize("kinds", BOTH_SETTINGS)
def test_a_version_to_come_is_waited_for(lasting: Servers, kinds: tuple[str, str]) -> None:
    """Row K37: for some three seconds, one request beside another."""
    waiting = []
    for world in (make_world(lasting.get(kind)) for kind in kinds):
        path, server = world.history.path, world.history.api.server
        targets = [f"{path}/a?resourceVersion={FUTURE}", f"{path}/none?resourceVersion={FUTURE}"]
        for name, columns in LISTS.items():
            version, match = name.rpartition(", ")[2].split()
            for cell, paging in zip(columns.split(), COLUMNS, strict=True):
                if cell == "wait":
                    targets.append(f"{path}?{query_of(world, version, match, paging)}")
        assert len(targets) == 5
        waiting += [(server, target) for target in targets]

    def ask(one: tuple[ServerProcess, str]) -> tuple[Answer, float]:
        with Api(one[0]) as api:
            return timed_get(api, one[1])

    with ThreadPoolExecutor(len(waiting)) as pool:
        for answer, took_s in pool.map(ask, waiting):
            assert_too_large(answer)
            assert took_s > 2.5


def test_a_version_that_comes_ends_the_wait(api: Api) -> None:
    """Rows K03, K06: what was unknown when the request came is answered once it has happened."""
    history = History.begin(api)
    soon = history.put("a") + 2
    found: list[Answer] = []

    def ask(target: str) -> None:
        with Api(api.server) as other:
            found.append(other.get(target))

    targets = (f"{history.path}/b?resourceVersion={soon}", f"{history.path}?resourceVersion={soon}")
    threads = [threading.Thread(target=ask, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    history.put("a")
    history.put("b")
    for thread in threads:
        thread.join()
    by_kind = {answer.ok()["kind"]: answer for answer in found}
    assert by_kind["ConfigMap"].json["data"] == history.states[-1]["b"]["data"]
    assert history.check_list(by_kind["ConfigMapList"]) >= soon


@pytest.mark.parametrize("name", [name for name in LISTS if name not in LASTING])
def test_how_a_list_of_what_is_gone_is_read(lost_world: World, name: str) -> None:
    """Row K31."""
    version, match = name.rpartition(", ")[2].split()
    for cell, paging in zip(LISTS[name].split(), COLUMNS, strict=True):
        check_cell(
            lost_world, cell, query_of(lost_world, version, match, paging), 2 if "limit" in paging else 0
        )


@pytest.mark.parametrize("paging", COLUMNS[2:], ids=["a token", "a token and a limit"])
@pytest.mark.parametrize("version", ["unset", "0"])
def test_a_token_of_what_is_gone(lost_world: World, version: str, paging: str) -> None:
    """Rows K35, K46."""
    check_cell(lost_world, "lost", query_of(lost_world, version, "unset", paging), 0)


# resourceVersion of a get -> what it is; resourceVersionMatch and paging mean nothing to it.
GETS: Final = {"K01": "unset", "K02": "0", "K03": "old", "J11": "junk"}


@pytest.mark.parametrize(
    "more", ["", "resourceVersionMatch=Exact", "resourceVersionMatch=x", "limit=1&continue=x"]
)
@pytest.mark.parametrize("version", GETS.values(), ids=GETS)
def test_how_a_get_is_read(world: World, version: str, more: str) -> None:
    history = world.history
    for name in "abd":  # new; deleted since the old version; changed since
        answer = history.api.get(f"{history.path}/{name}?{query_of(world, version, 'unset', more)}")
        if version == "junk":
            assert_refused(answer, 400, "BadRequest", JUNK)
        elif name in history.states[-1]:
            document = answer.ok()
            assert (document.pop("kind"), document.pop("apiVersion")) == ("ConfigMap", "v1")
            assert document == history.states[-1][name]
        else:
            details = {"name": name, "kind": "configmaps"}
            assert_refused(answer, 404, "NotFound", f'configmaps "{name}" not found', details)


def test_a_get_of_what_is_gone(lost_world: World) -> None:
    """Row K03: now is not older."""
    path = f"{lost_world.history.path}/d?resourceVersion={lost_world.old}"
    document = lost_world.history.api.get(path).ok()
    assert document["metadata"] == lost_world.history.states[-1]["d"]["metadata"]


def test_every_version_can_be_read_again(api: Api) -> None:
    """Rows K29, K30: after each write, and between the writes to others, in one list and in pages."""
    history = History.begin(api)
    for write, name in enumerate("abcabcaabcb"):
        if name in history.states[-1] and write % 3:
            history.delete(name)
        else:
            history.put(name)
        api.post(history.path.replace("configmaps", "secrets"), {"metadata": {"generateName": "s"}}).ok()
    for revision in range(history.revisions[0], history.newest + 1):
        exactly = f"{history.path}?resourceVersion={revision}&resourceVersionMatch=Exact"
        assert history.check_list(api.get(exactly)) == revision
        answer, skipped = api.get(f"{exactly}&limit=1"), 0
        while True:
            token = answer.ok()["metadata"].get("continue", "")
            assert history.check_list(answer, skipped=skipped, limit=1) == revision
            if not token:
                break
            answer, skipped = api.get(f"{history.path}?limit=1&continue={token}"), skipped + 1


async def test_what_the_store_forgets_the_cache_forgets(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Rows K32, K33: snapshots end with the store's compaction, so that both settings answer alike.

    kubernetes/kubernetes#132876.
    """
    directory = tmp_path_factory.mktemp("short")
    with Servers(directory, "--etcd-compaction-interval=100ms") as servers:
        for kind in ("embedded, no snapshots", "embedded"):
            world = make_world(servers.get(kind))
            history = world.history
            exactly = f"{history.path}?resourceVersion={world.old}&resourceVersionMatch=Exact"
            await eventually(lambda: history.api.get(exactly).status == 410)  # noqa: B023
            check_lost_token(world, history.api.get(f"{history.path}?limit=1&continue={world.token}"))


# ---- the store written to by others


@pytest.mark.etcd
@pytest.mark.parametrize("kind", ETCD_KINDS)
def test_what_others_wrote_into_etcd_is_seen_at_once(lasting: Servers, kind: str) -> None:
    """Rows K01, K04, K07, K36: a read without a version is as new as the store, whoever wrote."""
    api = lasting.get(kind)
    history = History.begin(api)
    history.put("a")
    prefix = f"/registry/core/configmaps/{history.path.split('/')[4]}/"
    value = lasting.etcd.ctl("get", "--print-value-only", f"{prefix}a").removesuffix(b"\n").decode()
    for number in range(10):
        name = f"b{number}"
        key = f"{prefix}{name}"
        lasting.etcd.ctl("put", key, value.replace('"name":"a"', f'"name":"{name}"'))
        revision = json.loads(lasting.etcd.ctl("get", key, "-w", "json"))["header"]["revision"]
        if number % 2:
            assert api.get(f"{history.path}/{name}").ok()["metadata"]["resourceVersion"] == str(revision)
        for query in ("", "limit=100", f"resourceVersion={revision}", "fieldSelector=metadata.name!%3Da"):
            listed = api.get(f"{history.path}?{query}").ok()
            assert listed["items"][-1]["metadata"]["name"] == name
            assert int(listed["metadata"]["resourceVersion"]) >= revision


@pytest.mark.etcd
@pytest.mark.parametrize("kind", ETCD_KINDS)
def test_what_is_no_object_counts_as_a_version(lasting: Servers, kind: str) -> None:
    """Rows C02, K36, K40: keys outside our prefix raise the store's revision, and no event tells of it."""
    api = lasting.get(kind)
    history = History.begin(api)
    history.put("a")
    for _ in range(3):
        lasting.etcd.ctl("put", "/elsewhere", "x")
        revision = json.loads(lasting.etcd.ctl("get", "/elsewhere", "-w", "json"))["header"]["revision"]
        assert history.check_list(api.get(history.path)) >= revision
        assert api.get(f"{history.path}/a?resourceVersion={revision}").status == 200
        exactly = f"{history.path}?resourceVersion={revision}&resourceVersionMatch=Exact"
        assert history.check_list(api.get(exactly)) == revision


@pytest.mark.etcd
async def test_etcd_is_compacted_behind_our_back(tmp_path: Path) -> None:
    """Rows K31, K35: without snapshots at once; the present is not touched by it."""
    with Servers(tmp_path, NEVER) as servers:
        world = make_world(servers.get("etcd, no snapshots"))
        history = world.history
        servers.etcd.ctl("compact", str(history.newest))
        exactly = f"{history.path}?resourceVersion={world.old}"
        for query in ("&limit=2", "&resourceVersionMatch=Exact"):
            assert history.api.get(exactly + query).reason == "Expired"
        check_lost_token(world, history.api.get(f"{history.path}?limit=1&continue={world.token}"))
        for query in ("", f"?resourceVersion={history.newest}&resourceVersionMatch=Exact", "?limit=1"):
            history.check_list(history.api.get(history.path + query), limit=1 if "limit" in query else 0)


# ---- no server can be told from another

NAMES: Final = ("a", "b", "c", "d")


class Ask(NamedTuple):
    """A list, to its last page. back: so many writes before the last one; None: no version, -1: zero."""

    back: int | None
    match: str
    limit: int
    selector: str


WRITES: Final = st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from(NAMES))
ASKS: Final = st.builds(
    Ask,
    st.one_of(st.none(), st.integers(-1, 14)),
    st.sampled_from(["", "", "Exact", "NotOlderThan"]),
    st.integers(0, 3),
    st.sampled_from(["", "", "metadata.name!=b"]),
)
WATCHES: Final = st.integers(1, 14)  # from so many writes before the last one


def without_accidents(value: Any, histories: History) -> Any:
    """Versions as the number of the write they stand for; what no two stores have in common left out."""
    ordinals = {str(revision): f"write {n}" for n, revision in enumerate(histories.revisions)}
    if isinstance(value, dict):
        return {
            key: decoded(each, histories) if key == "continue" else without_accidents(each, histories)
            for key, each in value.items()
            if key not in ("uid", "creationTimestamp", "namespace", "time")
        }
    if isinstance(value, list):
        return [without_accidents(each, histories) for each in value]
    if isinstance(value, str):
        return re.sub(r"\d+", lambda number: ordinals.get(number[0], number[0]), value)
    return value


def decoded(token: str, history: History) -> Any:
    content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    content["rv"] = history.revisions.index(content["rv"])
    return content


@pytest.mark.etcd
@settings(max_examples=15)
@given(steps=st.lists(st.one_of(WRITES, ASKS, WATCHES), min_size=12, max_size=30))
def test_all_servers_answer_alike(lasting: Servers, steps: list[tuple[str, str] | Ask | int]) -> None:
    """Rows K30, K33, K45, M07: the same requests have the same answers, and they are the right ones."""
    all_kinds = {kind: lasting.get(kind) for kind in KINDS}
    stores = {kind: History.begin(all_kinds[kind]) for kind in KINDS if kind != "etcd, no snapshots"}
    for number, step in enumerate(steps):
        match step:
            case "put" | "delete" as verb, name:
                for kind, history in stores.items():
                    # The two on etcd take turns.
                    other = all_kinds["etcd, no snapshots"] if kind == "etcd" and number % 2 else None
                    if verb == "put":
                        history.put(name, other)
                    elif name in history.states[-1]:
                        history.delete(name, other)
            case int(back):
                agree(all_kinds, stores, partial(watched, back=back))
            case Ask():
                agree(all_kinds, stores, partial(listed, ask=step))


def agree(servers: dict[str, Api], stores: dict[str, History], ask: Callable[[History, Api], Any]) -> None:
    found = {}
    for kind, api in servers.items():
        history = stores["etcd" if KINDS[kind][0] else kind]
        api.get(f"{history.path}/none")  # what takes any version sees the last write from here on
        found[kind] = without_accidents(ask(history, api), history)
    first = found["embedded"]
    assert all(each == first for each in found.values()), found


def listed(history: History, api: Api, ask: Ask) -> list[Any]:
    """The answers of all pages."""
    query = f"limit={ask.limit}&resourceVersionMatch={ask.match}&fieldSelector={ask.selector}"
    revision = 0
    if ask.back is not None:
        revision = history.revisions[max(len(history.revisions) - 1 - ask.back, 0)] if ask.back >= 0 else 0
        query += f"&resourceVersion={revision}"
    answers, token, items = [], "", []
    while True:
        answer = api.get(f"{history.path}?{query}")
        answers.append([answer.status, answer.json])
        if answer.status != 200:
            return answers
        items += answer.json["items"]
        token = answer.json["metadata"].get("continue", "")
        if not token:
            break
        query = f"limit={ask.limit}&fieldSelector={ask.selector}&continue={token}"
    is_exact = revision and (ask.match == "Exact" or (not ask.match and ask.limit))
    expected = history.at(revision if is_exact else history.newest)
    assert items == [i for i in expected if not ask.selector or i["metadata"]["name"] != "b"]
    return answers


def watched(history: History, api: Api, back: int) -> list[Any]:
    """What a watch from a few writes ago is sent at once."""
    start = history.revisions[max(len(history.revisions) - 1 - back, 0)]
    if start == history.newest:
        return []
    events = []
    with api.watch(f"{history.path}?watch=1&resourceVersion={start}") as stream:
        for event in stream:
            events.append(event)
            if event["type"] == "ERROR":
                event["object"]["message"] = event["object"]["message"].partition(" (")[0]
            elif int(event["object"]["metadata"]["resourceVersion"]) < history.newest:
                continue
            break
    return events


# ---- limits


def test_how_long_history_lasts() -> None:
    """Rows Q01-Q03: five minutes for watches and tokens; the ring is between 100 and 102,400 changes."""
    assert Config().storage.etcd_compaction_interval_s == 300
    assert HistoryLimits().window_s >= 75
    assert 100 <= Config().storage.default_watch_cache_size <= 102_400


def test_more_requests_than_may_be_under_way(tmp_path: Path) -> None:
    """Row Q05, without fairness: turned away, not queued; reads and writes apart; watches do not count, nor
    masters."""
    flags = (
        "--max-requests-inflight=1",
        "--max-mutating-requests-inflight=1",
        "--enable-priority-and-fairness=false",
    )
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ServerProcess(tmp_path / "data", *flags))
        admin = stack.enter_context(Api(server))
        bind(admin, "alice", "cluster-admin", "alice")
        alice = stack.enter_context(Api(server, "alice-token"))
        path = CONFIGMAPS.format("default")
        until_status(200, lambda: alice.get(path), "the binding holds")
        events = stack.enter_context(alice.watch(f"{path}?watch=1"))

        def assert_turned_away(answer: Answer) -> None:
            assert answer.status == 429
            assert answer.headers["retry-after"] == "1"
            assert (answer.reason, answer.json["details"]) == ("TooManyRequests", {"retryAfterSeconds": 1})

        def waiting(method: str) -> ssl.SSLSocket:
            """A request that waits for its version, some three seconds."""
            connection = stack.enter_context(raw_connection(server))
            connection.sendall(
                f"{method} {path}?resourceVersion={FUTURE} HTTP/1.1\r\nHost: x\r\n"
                "Authorization: Bearer alice-token\r\n\r\n".encode()
            )
            return connection

        def under_way(kind: str) -> int:
            metrics = admin.get("/metrics").body.decode()
            found = re.search(rf'apiserver_current_inflight_requests{{request_kind="{kind}"}} (\d+)', metrics)
            assert found is not None
            return int(found[1])

        def meanwhile(method: str, kind: str, count: int, ask: Callable[[], list[Answer]]) -> list[Answer]:
            """What is answered while a request waits; asked again if that ended before the answers came."""
            while True:
                connections.append(waiting(method))
                until(lambda: under_way(kind) == count, what="a request that waits")
                answers = ask()
                if under_way(kind) == count:
                    return answers

        connections: list[ssl.SSLSocket] = []
        body = {"metadata": {"generateName": "a"}}
        away, read, of_master = meanwhile(
            "DELETE", "mutating", 1, lambda: [alice.post(path, body), alice.get(path), admin.post(path, body)]
        )
        assert_turned_away(away)
        assert (read.status, of_master.status) == (200, 201)
        # The scrape is a read, too.
        away, of_master = meanwhile("GET", "readOnly", 2, lambda: [alice.get(path), admin.get(path)])
        assert_turned_away(away)
        assert of_master.status == 200
        assert events.status == 200
        for connection in connections:
            assert connection.recv(100).startswith(b"HTTP/1.1 504 ")
        assert alice.get(path).status == 200
        assert alice.post(path, body).status == 201


def test_a_list_has_the_time_it_asks_for(lasting: Servers) -> None:
    """Row J10: timeoutSeconds bounds a list, too."""
    api = lasting.get("embedded")  # which may have to start it first
    path = f"{CONFIGMAPS.format('default')}?resourceVersion={FUTURE}&timeoutSeconds=1"
    answer = api.get(path)
    message = "Timeout: request did not complete within the allotted timeout"
    assert (answer.status, answer.message) == (504, message)
