"""Four kinds of servers (two stores, with list snapshots and without), and objects with a known history."""

from __future__ import annotations

import contextlib
import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import pytest

from tests.support.api import Answer, Api
from tests.support.etcd_process import EtcdProcess, wheel_etcd
from tests.support.server_process import ServerProcess

GATE_OFF: Final = "--feature-gates=ListFromCacheSnapshot=false"


KINDS: Final = {
    "embedded": (False, ()),
    "embedded, no snapshots": (False, (GATE_OFF,)),
    "etcd": (True, ()),
    "etcd, no snapshots": (True, (GATE_OFF,)),
}


ETCD_KINDS: Final = [pytest.param(kind, marks=pytest.mark.etcd) for kind in KINDS if KINDS[kind][0]]


BOTH_SETTINGS: Final = [
    pytest.param(("embedded", "embedded, no snapshots"), id="embedded"),
    pytest.param(("etcd", "etcd, no snapshots"), id="etcd", marks=pytest.mark.etcd),
]


ALL_KINDS: Final = [*(kind for kind in KINDS if not KINDS[kind][0]), *ETCD_KINDS]


CONFIGMAPS: Final = "/api/v1/namespaces/{}/configmaps"


NEVER: Final = "--etcd-compaction-interval=0"  # nobody but the tests writes or forgets


FUTURE: Final = 10**12


_numbers: Final = itertools.count(1)


class Servers:
    """The four kinds of servers, started when first asked for. Those on etcd are replicas on one."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self._directory, self._flags = directory, flags
        self._apis: dict[str, Api] = {}
        self._stack = contextlib.ExitStack()
        self._etcd: EtcdProcess | None = None

    @property
    def etcd(self) -> EtcdProcess:
        if self._etcd is None:
            (home := self._directory / "etcd").mkdir()
            self._etcd = self._stack.enter_context(wheel_etcd(home))
        return self._etcd

    def get(self, kind: str) -> Api:
        if kind not in self._apis:
            is_etcd, flags = KINDS[kind]
            if is_etcd:
                # Tests count revisions: nobody may renew a Lease meanwhile.
                flags = (*flags, f"--etcd-servers={self.etcd.url}", "--leader-elect=false")
            process = ServerProcess(self._directory / kind.replace(", ", "-"), *self._flags, *flags)
            self._apis[kind] = Api(self._stack.enter_context(process))
            self._stack.callback(self._apis[kind].close)
        return self._apis[kind]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def servers_with(*flags: str) -> Any:
    """Returns a fixture: the four servers with these flags, for the tests of one module."""

    @pytest.fixture(scope="module")
    def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
        with Servers(tmp_path_factory.mktemp("servers"), *flags) as servers:
            yield servers

    return servers


def make_namespace(api: Api) -> str:
    name = f"rv-{next(_numbers)}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    return name


@dataclass
class History:
    """The content of a collection after each write, recorded from the responses. Nobody else writes to it."""

    api: Api
    path: str
    revisions: list[int] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def begin(cls, api: Api) -> History:
        history = cls(api, CONFIGMAPS.format(make_namespace(api)))
        history.note(int(api.get(history.path).ok()["metadata"]["resourceVersion"]), {})
        return history

    def note(self, revision: int, state: dict[str, Any]) -> None:
        self.revisions.append(revision)
        self.states.append(state)

    def put(self, name: str, api: Api | None = None) -> int:
        """Create `name`, or change it if it is there. api: of another server on the same store."""
        api, state = api or self.api, dict(self.states[-1])
        body = {"metadata": {"name": name}, "data": {"write": str(len(self.states))}}
        if name in state:
            document = api.put(f"{self.path}/{name}", body).ok()
        else:
            document = api.post(self.path, body).ok()
        revision = int(document["metadata"]["resourceVersion"])
        del document["kind"], document["apiVersion"]  # items of built-in lists have none (row C09)
        state[name] = document
        self.note(revision, state)
        return revision

    def delete(self, name: str, api: Api | None = None) -> int:
        api, state = api or self.api, dict(self.states[-1])
        api.delete(f"{self.path}/{name}").ok()
        del state[name]
        listed = int(api.get(self.path).ok()["metadata"]["resourceVersion"])
        revision = self._deleted_at(api, name)
        assert self.newest < revision <= listed
        self.note(revision, state)
        return revision

    def _deleted_at(self, api: Api, name: str) -> int:
        """The revision of a deletion: a list may have a later one, as servers write objects, too."""
        since = f"resourceVersion={self.newest}&fieldSelector=metadata.name%3D{name}"
        with api.watch(f"{self.path}?watch=1&{since}") as events:
            deleted = events.next()
        assert deleted["type"] == "DELETED"
        return int(deleted["object"]["metadata"]["resourceVersion"])

    @property
    def newest(self) -> int:
        return self.revisions[-1]

    def at(self, revision: int) -> list[dict[str, Any]]:
        state = self.states[bisect_right(self.revisions, revision) - 1]
        return [state[name] for name in sorted(state)]

    def events_after(self, revision: int) -> list[dict[str, Any]]:
        """The events that a watch from that version has received."""
        events = []
        for number in range(bisect_right(self.revisions, revision), len(self.revisions)):
            before, after = self.states[number - 1], self.states[number]
            for name in before.keys() - after.keys():
                meta = before[name]["metadata"] | {"resourceVersion": str(self.revisions[number])}
                events.append(event("DELETED", before[name] | {"metadata": meta}))
            for name, document in after.items():
                if before.get(name) is not document:
                    events.append(event("MODIFIED" if name in before else "ADDED", document))
        return events

    def check_list(self, answer: Answer, *, skipped: int = 0, limit: int = 0, rewinds: bool = False) -> int:
        """The state at the list's own version: items, token and count. Returns that version.

        skipped: how many items other pages showed. rewinds: a limit may go unheeded, and be it at zero.
        """
        document = answer.ok()
        assert (document["kind"], document["apiVersion"]) == ("ConfigMapList", "v1")
        revision = int(document["metadata"].pop("resourceVersion"))
        rest = self.at(revision)[skipped:]
        if rewinds and len(document["items"]) == len(rest):
            limit = 0
        assert document["items"] == (rest[:limit] if limit else rest)
        left = max(len(rest) - limit, 0) if limit else 0
        token = document["metadata"].pop("continue", "")
        assert bool(token) is bool(left)
        assert document["metadata"] == ({"remainingItemCount": left} if left else {})
        return revision


def event(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": {"kind": "ConfigMap", "apiVersion": "v1", **item}}


class World(NamedTuple):
    """A history, one of its old versions, and a continue token after the first object of that version."""

    history: History
    old: int
    token: str


def make_world(api: Api) -> World:
    """The old version shows what has been deleted and changed since, and not what has come."""
    history = History.begin(api)
    for name in "bdfh":
        history.put(name)
    history.delete("d")
    old = history.put("d")
    page = api.get(f"{history.path}?limit=1&resourceVersion={old}&resourceVersionMatch=Exact").ok()
    assert page["metadata"]["resourceVersion"] == str(old)
    history.delete("b")
    history.put("d")
    history.put("a")
    history.put("e")
    history.delete("h")
    return World(history, old, page["metadata"]["continue"])


VERSIONS: Final = {
    "unset": None,
    "0": "0",
    "old": "{old}",
    "gone": "{old}",
    "future": str(FUTURE),
    "junk": "x1",
}


MATCHES: Final = {"unset": None, "Exact": "Exact", "NotOlderThan": "NotOlderThan", "other": "exact"}


def query_of(world: World, version: str, match: str, paging: str) -> str:
    parts = [paging.replace("{token}", world.token)] if paging else []
    if (text := VERSIONS[version]) is not None:
        parts.append(f"resourceVersion={text.replace('{old}', str(world.old))}")
    if (text := MATCHES[match]) is not None:
        parts.append(f"resourceVersionMatch={text}")
    return "&".join(parts)


def assert_refused(answer: Answer, code: int, reason: str, message: str, details: Any = None) -> None:
    """Row P01: the whole Status."""
    assert answer.status == code, answer.body.decode()
    status = answer.json
    assert re.fullmatch(message, status.pop("message")), answer.message
    if details is not None:
        assert status.pop("details") == details
    expected = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    assert status == {**expected, "reason": reason, "code": code}
    assert answer.headers.get("retry-after") == ("1" if code == 504 else None)


def assert_too_large(answer: Answer, revision: int = FUTURE) -> None:
    """Row K37, as recorded in the scenarios `rv/*-too-large`."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = rf"Timeout: Too large resource version: {revision}, current: [1-9][0-9]*"
    assert_refused(answer, 504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


JUNK: Final = (
    r'invalid resource version: resourceVersion: Invalid value: "x1": '
    r'strconv\.ParseUint: parsing "x1": invalid syntax'
)
