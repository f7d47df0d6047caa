"""Runs writers, readers and watchers against real servers, and records a `History`."""

from __future__ import annotations

import asyncio
import itertools
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self, TypeVar

import aiohttp
import orjson

from tests.guarantees.history import (
    EVERYTHING,
    Answer,
    Event,
    EventType,
    History,
    NoAnswer,
    Observation,
    Outcome,
    Read,
    ReadKind,
    Selector,
    State,
    Verb,
    Watch,
    WatchEnd,
    Write,
)
from tests.support.server_process import ServerProcess

T = TypeVar("T")

# The servers' `--request-timeout`, and the longer time after which a client reports that a server hangs.
REQUEST_TIMEOUT_S: Final = 5
HUNG_AFTER_S: Final = 10.0
TIERS: Final = ("a", "b", "c")
SELECTORS: Final = (EVERYTHING, Selector(("a",)), Selector(("a", "b")), Selector(name="k0"))
WATCH_S: Final = 3  # the last bookmark comes 2 s before the end
PAUSE_S: Final = 0.05  # before the next attempt after a failure
CATCH_UP_S: Final = 60.0


@dataclass(frozen=True)
class Load:
    """Numbers of clients and objects. pause_s: the mean pause between two requests of a client."""

    writers: int = 3
    readers: int = 3
    watchers: int = 5
    objects: int = 6
    pause_s: float = 0.004


LIGHT: Final = Load(writers=3, readers=1, watchers=3, pause_s=0.002)


@dataclass
class Result:
    """The result of one request. body: decoded, if it was JSON."""

    status: int
    cut: NoAnswer | None
    body: Any = None

    @property
    def outcome(self) -> Outcome:
        """The outcome, if the request was a write."""
        match self.status:
            case 200 | 201:
                return Outcome.ANSWERED
            case 404 | 409 | 429 | 503:
                return Outcome.REFUSED
            case _ if self.cut is NoAnswer.NOT_SENT:
                return Outcome.REFUSED
        return Outcome.UNKNOWN


@dataclass
class Recorder:
    """Records one run. `servers` are replicas: each request goes to any of them.

    Failures of requests are recorded, not raised: servers may stop and start during the run.
    """

    servers: Sequence[ServerProcess]
    load: Load = field(default_factory=Load)
    namespace: str = "guarantees"
    seed: int = 0
    history: History = field(default_factory=History)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._numbers = itertools.count(1)
        self._tls = {
            server.ca_path: ssl.create_default_context(cafile=server.ca_path) for server in self.servers
        }
        self._path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        self._tasks: list[asyncio.Task[None]] = []
        self._known_revisions: list[int] = []  # the latest, for reads to ask for
        self._is_writing = True

    @asynccontextmanager
    async def recording(self) -> AsyncIterator[Self]:
        """Run the load during the block; after it `history` is complete.

        The servers must answer again when the block ends.
        """
        timeout = aiohttp.ClientTimeout(total=HUNG_AFTER_S)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as self._session:
            # aiohttp repeats a PUT by itself if its connection breaks, and then the outcome of the first is
            # unknown. It has no public option to turn that off.
            assert self._session._retry_connection
            self._session._retry_connection = False
            await self._make_namespace()
            load = self.load
            try:
                workers = [self._spawn(self._write(f"writer {n}")) for n in range(load.writers)]
                workers += [self._spawn(self._read(f"reader {n}")) for n in range(load.readers)]
                for n in range(load.watchers):
                    self._spawn(self._list_and_watch(f"watcher {n}", SELECTORS[n % len(SELECTORS)], n))
                yield self
                self._is_writing = False
                await asyncio.gather(*workers)
                await self._finish()
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
            for task in self._tasks:
                if not task.cancelled():
                    task.result()

    @property
    def answered_writes(self) -> int:
        return sum(write.outcome is Outcome.ANSWERED for write in self.history.writes)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    # ---- requests

    async def probe(self, path: str, *, number: int = 0) -> int:
        """The status of a GET that is not recorded; 0 without an answer."""
        return (await self._exchange(self.servers[number], "GET", path, None, None))[0]

    async def send(
        self, method: str, path: str, body: Any = None, query: Mapping[str, str | int] | None = None
    ) -> Result:
        """Send a request to any of the servers. A failure is recorded as an `Answer`."""
        server = self._random.choice(self.servers)
        began = time.monotonic()
        status, cut, data = await self._exchange(server, method, path, body, query)
        answer = _parsed(data)
        if status >= 400 or cut:
            is_status = isinstance(answer, dict) and answer.get("kind") == "Status"
            is_status = is_status and answer.get("code") == status
            message = str(answer.get("message", ""))[:200] if is_status else ""
            text = f"{method} {path.removeprefix(self._path)} {dict(query or {})}"
            ended = time.monotonic()
            self.history.answers.append(Answer(text, began, ended, status, is_status, cut, message))
        return Result(status, cut, answer)

    async def _exchange(
        self, server: ServerProcess, method: str, path: str, body: Any, query: Mapping[str, str | int] | None
    ) -> tuple[int, NoAnswer | None, bytes]:
        """Returns the status, why there is none, and the body."""
        try:
            async with self._request(server, method, path, body, query) as response:
                data = await response.read()
                return response.status, None, data
        except aiohttp.ClientConnectorError:
            return 0, NoAnswer.NOT_SENT, b""
        except TimeoutError:
            return 0, NoAnswer.HUNG, b""
        except (aiohttp.ClientError, OSError):
            return 0, NoAnswer.BROKEN, b""

    def _request(
        self,
        server: ServerProcess,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, str | int] | None,
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> Any:
        more: dict[str, Any] = {"timeout": timeout} if timeout else {}
        return self._session.request(
            method,
            server.url + path,
            json=body,
            params=query,
            headers={"Authorization": "Bearer admin-token"},
            ssl=self._tls[server.ca_path],
            **more,
        )

    async def _make_namespace(self) -> None:
        made = await self.send("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        assert made.status == 201, made
        await _retry_until_true(self._has_namespace_everywhere)

    async def _has_namespace_everywhere(self) -> bool:
        """Whether every server seems to have the namespace in its cache, and so admits objects into it."""
        found = [await self.send("GET", f"/api/v1/namespaces/{self.namespace}") for _ in range(8)]
        return all(result.status == 200 for result in found)

    # ---- writers

    async def _write(self, client: str) -> None:
        """Read an object, then create, update or delete it on condition of what was read: conflicts occur."""
        while self._is_writing:
            name = f"k{self._random.randrange(self.load.objects)}"
            found = await self._get(client, name)
            if found is None:
                await asyncio.sleep(PAUSE_S)
                continue
            seen = found.items[0] if found.items else None
            if seen is not None and self._random.random() < 0.15:
                outcome = await self._delete(client, seen)
            else:
                outcome = await self._put(client, name, seen, self._random.choice(TIERS))
            await self._pause(failed=outcome is not Outcome.ANSWERED)

    async def _pause(self, *, failed: bool = False) -> None:
        await asyncio.sleep(PAUSE_S if failed else self._random.uniform(0, 2 * self.load.pause_s))

    async def _put(self, client: str, name: str, over: Observation | None, tier: str) -> Outcome:
        state = State(name, f"{client}/{next(self._numbers)}", tier)
        document: dict[str, Any] = {
            "metadata": {"name": name, "labels": {"tier": tier}},
            "data": {"value": state.value},
        }
        began = time.monotonic()
        if over is None:
            result = await self.send("POST", self._path, document)
        else:
            document["metadata"]["resourceVersion"] = str(over.revision)
            result = await self.send("PUT", f"{self._path}/{name}", document)
        is_answered = result.outcome is Outcome.ANSWERED
        revision = _seen(result.body).revision if is_answered else 0
        if is_answered:
            self._note_revision(revision)
        write = Write(
            client,
            Verb.CREATE if over is None else Verb.UPDATE,
            name,
            began,
            time.monotonic(),
            result.outcome,
            state,
            revision,
            over.revision if over else 0,
            result.status,
        )
        self.history.writes.append(write)
        return write.outcome

    async def _delete(self, client: str, seen: Observation) -> Outcome:
        options = {"preconditions": {"resourceVersion": str(seen.revision)}}
        began = time.monotonic()
        result = await self.send("DELETE", f"{self._path}/{seen.state.name}", options)
        write = Write(
            client,
            Verb.DELETE,
            seen.state.name,
            began,
            time.monotonic(),
            result.outcome,
            expected=seen.revision,
            status=result.status,
        )
        self.history.writes.append(write)
        return write.outcome

    # ---- readers

    async def _read(self, client: str) -> None:
        while self._is_writing:
            at = self._random.choice(self._known_revisions) if self._known_revisions else 0
            selector = self._random.choice(SELECTORS)
            choice = self._random.randrange(7)
            if choice == 0:
                name = f"k{self._random.randrange(self.load.objects)}"
                read = await self._get(client, name)
            elif choice == 1 and at:
                read = await self._list(client, ReadKind.EXACT, selector, at=at)
            elif choice == 2 and at:
                read = await self._list(client, ReadKind.NOT_OLDER_THAN, selector, at=at)
            elif choice == 3:
                read = await self._list(client, ReadKind.ANY, selector)
            elif choice == 4:
                read = await self._list(client, ReadKind.MOST_RECENT, selector, limit=2)
            elif choice == 5 and at:
                read = await self._list(client, ReadKind.EXACT, selector, at=at, limit=2)
            else:
                read = await self._list(client, ReadKind.MOST_RECENT, selector)
            await self._pause(failed=read is None)

    def _note_revision(self, revision: int) -> None:
        self._known_revisions.append(revision)
        del self._known_revisions[:-200]

    async def _get(self, client: str, name: str) -> Read | None:
        """Returns None if the server did not say whether the object exists."""
        began = time.monotonic()
        result = await self.send("GET", f"{self._path}/{name}")
        if result.status not in (200, 404):
            return None
        items = (_seen(result.body),) if result.status == 200 else ()
        return self._add(Read(client, ReadKind.GET, began, time.monotonic(), items, name=name))

    async def _list(
        self, client: str, kind: ReadKind, selector: Selector = EVERYTHING, *, at: int = 0, limit: int = 0
    ) -> Read | None:
        began = time.monotonic()
        query: dict[str, str | int] = {**selector.query, **_QUERIES[kind](at)}
        if limit:
            query["limit"] = limit
        items: list[Observation] = []
        pages: list[int] = []
        while True:
            result = await self.send("GET", self._path, query=query)
            if result.status != 200:
                return None
            items += map(_seen, result.body["items"])
            meta = result.body["metadata"]
            pages.append(int(meta["resourceVersion"]))
            self._note_revision(pages[-1])
            if not meta.get("continue"):
                break
            query = {**selector.query, "limit": limit, "continue": meta["continue"]}
        ended = time.monotonic()
        shown = tuple(pages) if limit else ()
        return self._add(
            Read(client, kind, began, ended, tuple(items), pages[0], at, selector=selector, pages=shown)
        )

    def _add(self, read: Read) -> Read:
        self.history.reads.append(read)
        return read

    # ---- watchers

    async def _list_and_watch(self, client: str, selector: Selector, number: int) -> None:
        """List and watch, or watch with initial events; resume where a stream ended, as an informer does."""
        before: Watch | None = None
        while True:
            if before is None or before.end is WatchEnd.GONE:
                if number % 2:
                    before = await self._watch_initial(client, selector)
                else:
                    read = await self._list(client, ReadKind.MOST_RECENT, selector)
                    before = await self._watch(client, selector, read.revision) if read else None
            else:
                before = await self._watch(client, selector, before.last, resumes=True)
            if before is None or before.end is not WatchEnd.FINISHED:
                await asyncio.sleep(PAUSE_S)

    async def _watch(self, client: str, selector: Selector, start: int, *, resumes: bool = False) -> Watch:
        watch = Watch(client, selector, start, resumes=resumes)
        self.history.watches.append(watch)
        query: dict[str, str | int] = {**selector.query, "resourceVersion": start}
        watch.end = WatchEnd.BROKEN
        async for event in self._events(watch, query):
            watch.events.append(event)
        return watch

    async def _watch_initial(self, client: str, selector: Selector) -> Watch | None:
        """Watch with initial events, which are recorded as a read."""
        query: dict[str, str | int] = {
            **selector.query,
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        }
        began = time.monotonic()
        initial: list[Observation] = []
        watch: Watch | None = None
        pending = Watch(client, selector, 0)
        async for event in self._events(pending, query):
            if watch is not None:
                watch.events.append(event)
            elif event.type is EventType.BOOKMARK:
                ended, items = time.monotonic(), tuple(sorted(initial, key=lambda seen: seen.state.name))
                self._add(
                    Read(client, ReadKind.MOST_RECENT, began, ended, items, event.revision, selector=selector)
                )
                watch = Watch(client, selector, event.revision)
                self.history.watches.append(watch)
            else:
                assert event.state is not None
                initial.append(Observation(event.revision, event.state))
        if watch is not None:
            watch.end = pending.end
        return watch

    async def _events(self, watch: Watch, query: Mapping[str, str | int]) -> AsyncIterator[Event]:
        """Yields the events of a stream, and sets `watch.end` to how it ended."""
        server = self._random.choice(self.servers)
        asked = {**query, "watch": 1, "allowWatchBookmarks": "true", "timeoutSeconds": WATCH_S}
        timeout = aiohttp.ClientTimeout(total=WATCH_S + HUNG_AFTER_S)
        began, status, cut, is_status = time.monotonic(), 0, None, True
        watch.end = WatchEnd.BROKEN
        try:
            async with self._request(server, "GET", self._path, None, asked, timeout) as response:
                status = response.status
                if status != 200:
                    answer = _parsed(await response.read())
                    is_status = isinstance(answer, dict) and answer.get("code") == status
                    if status == 410:
                        watch.end = WatchEnd.GONE
                    return
                watch.end = WatchEnd.OPEN
                async for line in response.content:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]["code"]
                        watch.end = WatchEnd.GONE if status == 410 else WatchEnd.BROKEN
                        return
                    yield _event(event)
                watch.end = WatchEnd.FINISHED
        except aiohttp.ClientConnectorError:
            cut = NoAnswer.NOT_SENT
        except TimeoutError:
            cut = NoAnswer.HUNG
        except (aiohttp.ClientError, OSError, orjson.JSONDecodeError):
            cut = NoAnswer.BROKEN  # Possibly in the middle of an event.
        finally:
            if cut:
                watch.end = WatchEnd.BROKEN
            elif not status:
                # The run ended, and cancelled the watch, before it was answered.
                watch.end = WatchEnd.OPEN
            if cut or status not in (0, 200):
                text = f"watch {dict(query)}"
                ended = time.monotonic()
                self.history.answers.append(Answer(text, began, ended, status, is_status, cut))

    # ---- the end

    async def _finish(self) -> None:
        """Change every object once more, which every watcher has to observe, and list everything."""
        last = dict[str, int]()
        for n in range(self.load.objects):
            name = f"k{n}"
            last[name] = await _retry_until_true(partial(self._change, name))
        final = await _retry_until_true(partial(self._list, "referee", ReadKind.MOST_RECENT))
        followers = [f"watcher {n}" for n in range(self.load.watchers)]
        goals = {
            client: last["k0"] if SELECTORS[n % len(SELECTORS)].name else max(last.values())
            for n, client in enumerate(followers)
        }
        ends_at = time.monotonic() + CATCH_UP_S
        while time.monotonic() < ends_at:
            current = {watch.client: watch for watch in self.history.watches}
            if all(client in current and _reached(current[client], goal) for client, goal in goals.items()):
                break
            await asyncio.sleep(0.02)
        current = {watch.client: watch for watch in self.history.watches}
        for client, goal in goals.items():
            if client not in current:
                current[client] = Watch(client, EVERYTHING, 0, end=WatchEnd.BROKEN)
                self.history.watches.append(current[client])
            current[client].reaches = goal
        # Watchers that list again may have read after it.
        self.history.reads.remove(final)
        self.history.reads.append(final)

    async def _change(self, name: str) -> int:
        """Change `name`, and return the revision; 0 if that failed and has to be retried."""
        found = await self._get("referee", name)
        if found is None:
            return 0
        outcome = await self._put("referee", name, found.items[0] if found.items else None, "a")
        return self.history.writes[-1].revision if outcome is Outcome.ANSWERED else 0


_QUERIES: Final[dict[ReadKind, Callable[[int], dict[str, str | int]]]] = {
    ReadKind.MOST_RECENT: lambda at: {},
    ReadKind.ANY: lambda at: {"resourceVersion": 0},
    ReadKind.NOT_OLDER_THAN: lambda at: {"resourceVersion": at, "resourceVersionMatch": "NotOlderThan"},
    ReadKind.EXACT: lambda at: {"resourceVersion": at, "resourceVersionMatch": "Exact"},
}


async def _retry_until_true(attempt: Callable[[], Awaitable[T | None]]) -> T:
    """Repeat `attempt` until it returns something true, and return that."""
    ends_at = time.monotonic() + CATCH_UP_S
    while not (found := await attempt()):
        assert time.monotonic() < ends_at, f"{attempt} does not succeed in {CATCH_UP_S} s"
        await asyncio.sleep(PAUSE_S)
    return found


def _reached(watch: Watch, goal: int) -> bool:
    return max(watch.start, watch.last) >= goal


def _parsed(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _seen(document: Any) -> Observation:
    meta = document["metadata"]
    state = State(meta["name"], document["data"]["value"], meta["labels"]["tier"])
    return Observation(int(meta["resourceVersion"]), state)


def _event(document: Any) -> Event:
    kind = EventType(document["type"])
    if kind is EventType.BOOKMARK:
        return Event(kind, int(document["object"]["metadata"]["resourceVersion"]))
    seen = _seen(document["object"])
    return Event(kind, seen.revision, seen.state)
