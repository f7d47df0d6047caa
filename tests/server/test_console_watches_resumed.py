"""Watches on /console/watches that are interrupted at any moment miss no event, and see none twice.

Each is compared, byte for byte, with one ordinary watch of the same changes.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.test_workers import two_workers
from tests.support.api import Api
from tests.support.etcd_process import EtcdProcess
from tests.support.objects import config_map, config_maps, named
from tests.support.server_process import ServerProcess
from tests.support.watches_client import TABLE, WatchesClient, watching

_namespaces: Final = itertools.count()
_COLUMNS: Final = re.compile(rb'"columnDefinitions":.*?,"rows"')
_TIMES: Final = re.compile(rb'"[0-9]+s"')
# The form of each subscription.
FORMS: Final = ("application/json", TABLE)


class Follower:
    """A page with a subscription in each form, which resumes them whenever they are interrupted.

    events: those of each form, as they came.
    """

    def __init__(self, server: ServerProcess, path: str, version: str) -> None:
        self._server, self._path = server, path
        self._versions = dict.fromkeys(FORMS, version)
        self._numbers = itertools.count(1)
        self.events: dict[str, list[bytes]] = {form: [] for form in FORMS}
        self._forms: dict[int, str] = {}
        self._stack = ExitStack()
        self._client = self._connect()

    def _connect(self) -> WatchesClient:
        client = self._stack.enter_context(watching(self._server))
        self._forms.clear()
        for form in FORMS:
            self._subscribe(client, form)
        return client

    def _subscribe(self, client: WatchesClient, form: str) -> None:
        number = next(self._numbers)
        self._forms[number] = form
        client.subscribe(number, f"{self._path}?watch=true&resourceVersion={self._versions[form]}", form)

    def read(self) -> None:
        """Read one message, whatever it is."""
        text = self._client.receive()
        message: dict[str, Any] = json.loads(text)
        number = message["id"]
        form = self._forms[number]
        if "end" in message:
            assert message["end"] == {"status": None}
            del self._forms[number]
            self._subscribe(self._client, form)
        elif "event" in message:
            self._versions[form] = message["event"]["object"]["metadata"]["resourceVersion"]
            self.events[form].append(text.removeprefix(b'{"id":%d,"event":' % number)[:-1])

    def interrupt(self, form: str) -> None:
        """End the subscription in a form, and resume it."""
        for number in [number for number, found in self._forms.items() if found == form]:
            self._client.send({"unsubscribe": {"id": number}})

    def reconnect(self) -> None:
        """Lose the WebSocket, with all that has not been read."""
        self._stack.close()
        self._client = self._connect()

    def close(self) -> None:
        self._stack.close()


@contextmanager
def following(server: ServerProcess, path: str, version: str) -> Iterator[Follower]:
    follower = Follower(server, path, version)
    try:
        yield follower
    finally:
        follower.close()


NAMES: Final = st.sampled_from("ab")
STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("read"), st.just("")),
        st.tuples(st.just("interrupt"), st.sampled_from(FORMS)),
        st.tuples(st.just("reconnect"), st.just("")),
    ),
    min_size=5,
    max_size=30,
)


def follow(server: ServerProcess, api: Api, steps: list[tuple[str, str]]) -> None:
    """Take the steps, and compare what was seen with an ordinary watch."""
    namespace = f"resumed-{next(_namespaces)}"
    start = api.post("/api/v1/namespaces", named(namespace)).ok()["metadata"]["resourceVersion"]
    path = config_maps(namespace)
    with following(server, path, start) as follower:
        there: set[str] = set()
        changes = 0
        for step, what in steps:
            match step:
                case "write":
                    document = config_map(what, step=str(changes))
                    method, where = ("PUT", f"{path}/{what}") if what in there else ("POST", path)
                    api.send(method, where, document).ok()
                    there.add(what)
                    changes += 1
                case "delete" if what in there:
                    api.delete(f"{path}/{what}").ok()
                    there.remove(what)
                    changes += 1
                case "read":
                    if sum(map(len, follower.events.values())) < changes * len(FORMS):
                        follower.read()
                case "interrupt":
                    follower.interrupt(what)
                case "reconnect":
                    follower.reconnect()
        while min(map(len, follower.events.values())) < changes:
            follower.read()
        for form in FORMS:
            with api.watch(f"{path}?watch=true&resourceVersion={start}", Accept=form) as plain:
                expected = [plain.line() for _ in range(changes)]
            assert comparable(follower.events[form]) == comparable(expected)


def comparable(events: list[bytes]) -> list[bytes]:
    """Events without the ages in tables, and without the columns that the first event of a watch has."""
    return [_COLUMNS.sub(b'"rows"', _TIMES.sub(b'""', event)) for event in events]


@settings(max_examples=25)
@given(STEPS)
def test_no_event_is_missed_or_seen_twice(
    server: ServerProcess, api: Api, steps: list[tuple[str, str]]
) -> None:
    follow(server, api, steps)


def test_over_two_workers(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdProcess) -> None:
    """Whichever worker has the WebSocket, and which one the next time."""
    with (
        two_workers(tmp_path_factory.mktemp("workers"), etcd, "--console") as server,
        Api(server) as api,
    ):
        follow(server, api, [("write", "a"), ("reconnect", ""), ("write", "b"), ("read", "")] * 8)
        with ExitStack() as stack:
            tabs = [stack.enter_context(watching(server)) for _ in range(10)]
            for tab in tabs:
                tab.begin(1, "/api/v1/namespaces/default/configmaps?watch=true")
            api.post("/api/v1/namespaces/default/configmaps", config_map("seen-by-all")).ok()
            for tab in tabs:
                while tab.event(1)["object"]["metadata"]["name"] != "seen-by-all":
                    pass
