"""What controllers may rely on of informers: every object, then every change, in order, whatever happens.

Source: k8s.io/client-go, tools/cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.controller_runtime.informer import Informer, InformerCallbacks, ListWatch, Notification
from apiserver.controller_runtime.work_queue import Backoff
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import StorageUnavailable
from apiserver.storage.event_loop_turns import TURN_S
from apiserver.storage.interface import KeyRange
from apiserver.storage.watch_cache import Listing, WatchCache, WatchScope
from tests.support.eventually import WITHIN_S, eventually
from tests.support.in_process import PREFIX, server
from tests.support.rounds import some_rounds

SECRETS: Final = f"{PREFIX}/core/secrets/"
SOON: Final = Backoff(base_s=0.01, max_s=0.02)


def value(name: str, size: int = 0) -> bytes:
    return orjson.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "x": size})


async def create(store: EmbeddedStore, place: str, size: int = 0) -> int:
    return await store.create(f"{SECRETS}{place}", value(place.rpartition("/")[2], size))


async def synced(informer: Informer) -> None:
    await asyncio.wait_for(informer.has_synced.wait(), WITHIN_S)


class Recorder:
    """What a handler was told: `+a` for an object, `a 1->2` for a change of its size, `-a` for a deletion."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.notifications: list[Notification] = []

    def __call__(self, notification: Notification) -> None:
        self.notifications.append(notification)
        name = f"{notification.namespace}/{notification.name}"
        if notification.new is None:
            self.told.append(f"-{name}")
        elif notification.old is None:
            self.told.append(f"+{name}")
        else:
            sizes = (each.document()["x"] for each in (notification.old, notification.new))
            self.told.append(f"{name} {'->'.join(map(str, sizes))}")

    async def wait_for(self, *told: str) -> None:
        try:
            await eventually(lambda: self.told == [*told])
        except AssertionError:
            raise AssertionError(self.told) from None


@asynccontextmanager
async def informed(
    cache: WatchCache[StoredObject], handler: Callable[[Notification], Awaitable[None] | None], **options: Any
) -> AsyncIterator[Informer]:
    source = {name: options.pop(name) for name in ("scope", "lists") if name in options}
    informer = Informer(ListWatch(cache, SECRETS, **source, restart=SOON), handler, **options)
    running = asyncio.create_task(informer.run())
    yield informer
    assert not running.done(), "nothing ends an informer"
    running.cancel()
    await asyncio.wait([running])


async def test_first_what_is_there_then_each_change(store: EmbeddedStore) -> None:
    await create(store, "ns/b")
    revision = await create(store, "ns/a", 1)
    recorder = Recorder()
    async with server(store) as registry, informed(registry.cache, recorder) as informer:
        await synced(informer)
        assert recorder.told == ["+ns/a", "+ns/b"]
        revision = await store.compare_and_put(f"{SECRETS}ns/a", value("a", 2), expected=revision)
        await create(store, "other/c")
        await store.compare_and_delete(f"{SECRETS}ns/a", expected=revision)
        await recorder.wait_for("+ns/a", "+ns/b", "ns/a 1->2", "+other/c", "-ns/a")
        last = recorder.notifications[-1]
        assert last.old is not None
        assert last.old.document()["x"] == 2, "what is gone is shown as it was"
        revisions = [each.revision for each in recorder.notifications[2:]]
        assert revisions == sorted(revisions)


async def test_without_a_list_only_what_changes(store: EmbeddedStore) -> None:
    await create(store, "ns/a")
    recorder = Recorder()
    async with server(store) as registry, informed(registry.cache, recorder, lists=False) as informer:
        await synced(informer)
        await create(store, "ns/b")
        await recorder.wait_for("+ns/b")


async def test_only_what_is_in_scope(store: EmbeddedStore) -> None:
    for place in ("ns/a", "other/a"):
        await create(store, place)
    recorder, scope = Recorder(), WatchScope(key_prefix=f"{SECRETS}ns/")
    async with server(store) as registry, informed(registry.cache, recorder, scope=scope) as informer:
        await synced(informer)
        for place in ("other/b", "ns/b"):
            await create(store, place)
        await recorder.wait_for("+ns/a", "+ns/b")


async def test_what_a_handler_cannot_take_is_reported_and_left_out(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    told = []

    def handler(notification: Notification) -> None:
        if notification.name.startswith("odd"):
            raise LookupError("that is odd")
        assert notification.new is not None
        told.append(notification.new.document()["metadata"]["name"])

    await store.create(f"{SECRETS}ns/a-damaged", b"k8s\x00")
    await create(store, "ns/odd")
    await create(store, "ns/x")
    async with server(store) as registry, informed(registry.cache, handler) as informer:
        await synced(informer)
        await store.create(f"{SECRETS}ns/b-damaged", b"{}")
        await create(store, "ns/odd-too")
        await create(store, "ns/y")
        await eventually(lambda: told == ["x", "y"])
    for place in ("ns/a-damaged", "ns/b-damaged"):
        assert f"damaged object: StorageError: corrupt object, Code: 7, Key: {SECRETS}{place}," in caplog.text
    for place in ("ns/odd", "ns/odd-too"):
        assert f"cannot handle a change of {SECRETS}{place}" in caplog.text


# ---- batches


async def test_what_a_handler_has_left_to_do_comes_before_the_next_change(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A change is delivered when that is done, also if it has failed."""
    recorder, may_end = Recorder(), asyncio.Event()

    async def rest() -> None:
        await may_end.wait()
        raise ValueError("as intended")

    def handle(notification: Notification) -> Awaitable[None] | None:
        recorder(notification)
        return rest() if notification.name == "long" else None

    async with server(store) as registry, informed(registry.cache, handle) as informer:
        await synced(informer)
        await create(store, "n/long")
        revision = await create(store, "n/next")
        assert await registry.cache.revision_at() >= revision
        await recorder.wait_for("+n/long")
        assert not informer.has_delivered(revision)
        may_end.set()
        await recorder.wait_for("+n/long", "+n/next")
        await eventually(lambda: informer.has_delivered(revision))
    assert "as intended" in caplog.text


async def test_batches_end_after_the_list_and_after_changes(store: EmbeddedStore) -> None:
    for name in "abcde":
        await create(store, f"ns/{name}")
    told: list[str] = []
    async with (
        server(store) as registry,
        informed(
            registry.cache,
            lambda each: told.append(each.name),
            callbacks=InformerCallbacks(on_batch=lambda: told.append("|")),
            batch_max=2,
        ) as informer,
    ):
        await synced(informer)
        assert told[:6] == ["a", "b", "c", "d", "e", "|"], "a list is one batch"
        await create(store, "ns/f")
        await eventually(lambda: "f" in told and told[-1] == "|")


async def test_other_tasks_have_their_turn(store: EmbeddedStore) -> None:
    """However few objects there are: what is to be done for one may take long."""
    for number in range(10):
        await create(store, f"ns/{number}")
    told = 0

    def handle(_: Notification) -> None:
        nonlocal told
        told += 1
        ends_at = monotonic() + 2 * TURN_S
        while monotonic() < ends_at:
            pass

    async with server(store) as registry:
        seen = set()
        async with informed(registry.cache, handle) as informer:
            while not informer.has_synced.is_set():
                seen.add(told)
                await asyncio.sleep(0)
        assert set(range(1, 10)) <= seen


async def test_nothing_is_delivered_while_there_is_no_room(store: EmbeddedStore) -> None:
    for name in "abc":
        await create(store, f"ns/{name}")
    recorder, room = Recorder(), asyncio.Event()

    async def wait_for_room() -> None:
        await room.wait()

    async with (
        server(store) as registry,
        informed(registry.cache, recorder, batch_max=2, wait_for_room=wait_for_room) as informer,
    ):
        await recorder.wait_for("+ns/a", "+ns/b")
        await some_rounds()
        assert len(recorder.told) == 2
        room.set()
        await synced(informer)
        await recorder.wait_for("+ns/a", "+ns/b", "+ns/c")


# ---- what is lost

UNTIL_TOLD_OTHERWISE: Final = 1_000_000


class Flaky(WatchCache[StoredObject]):
    """A cache whose lists fail as often as is asked, and whose watchers can be lost."""

    failures = 0

    async def list(self, keys: KeyRange, *args: Any, **options: Any) -> Listing[StoredObject]:
        if self.failures:
            self.failures -= 1
            raise StorageUnavailable("no")
        return await super().list(keys, *args, **options)

    def lose(self) -> None:
        """End all watches, as when the cache has to be filled anew."""
        for watcher in list(self.resources[SECRETS].fanout):
            watcher.end()


@asynccontextmanager
async def flaky(store: EmbeddedStore) -> AsyncIterator[Flaky]:
    cache = Flaky(store, prefix=PREFIX, decode=StoredObject.of, size_of=lambda found: len(found.tail))
    running = asyncio.create_task(cache.run())
    await cache.wait_until_filled()
    yield cache
    running.cancel()
    await asyncio.wait([running])


async def test_it_begins_anew_until_it_can_list(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    await create(store, "ns/a")
    recorder = Recorder()
    async with flaky(store) as cache:
        cache.failures = 3
        async with informed(cache, recorder) as informer:
            await synced(informer)
            assert recorder.told == ["+ns/a"]
    assert caplog.text.count(", retrying: ") == 3


async def test_after_a_lost_watch_all_that_is_there_comes_again(store: EmbeddedStore) -> None:
    await create(store, "ns/a")
    recorder = Recorder()
    async with flaky(store) as cache, informed(cache, recorder) as informer:
        await synced(informer)
        cache.lose()
        await create(store, "ns/b")
        await recorder.wait_for("+ns/a", "+ns/a", "+ns/b")


MISSED: Final = {
    "reported if that is asked for": (True, ["+ns/a", "+ns/b", "-ns/a", "+ns/b"]),
    "not reported otherwise": (False, ["+ns/a", "+ns/b", "+ns/b"]),
}


@pytest.mark.parametrize(("reports", "told"), MISSED.values(), ids=MISSED)
async def test_a_deletion_that_was_missed_is(store: EmbeddedStore, reports: bool, told: list[str]) -> None:
    revision = await create(store, "ns/a")
    await create(store, "ns/b")
    recorder = Recorder()
    async with flaky(store) as cache, informed(cache, recorder, reports_missed_deletions=reports) as informer:
        await synced(informer)
        cache.failures = UNTIL_TOLD_OTHERWISE
        cache.lose()
        await store.compare_and_delete(f"{SECRETS}ns/a", expected=revision)
        cache.failures = 0
        await recorder.wait_for(*told)
        cache.lose()
        await recorder.wait_for(*told, "+ns/b")


# ---- whatever happens to the cache

# A name is created, changed, or deleted; the others happen to what the informer follows.
HAPPENINGS: Final = st.lists(st.sampled_from(["a", "b", "c", "compact", "refill"]), max_size=20)


@settings(max_examples=25, deadline=None)
@given(happenings=HAPPENINGS)
async def test_it_ends_with_the_state_of_the_store(happenings: list[str]) -> None:
    """History is forgotten, and the cache is filled again, while it follows."""
    revisions: dict[str, tuple[int, int]] = {}
    seen: dict[str, int] = {}

    def handle(told: Notification) -> None:
        if told.new is None:
            seen.pop(told.name, None)
        else:
            seen[told.name] = told.new.document()["x"]

    async def write(name: str) -> None:
        revision, size = revisions.pop(name, (0, 0))
        if size == 2:
            await store.compare_and_delete(f"{SECRETS}ns/{name}", expected=revision)
        elif revision:
            new = await store.compare_and_put(f"{SECRETS}ns/{name}", value(name, 2), expected=revision)
            revisions[name] = new, 2
        else:
            revisions[name] = await create(store, f"ns/{name}", 1), 1

    store = await EmbeddedStore.in_memory()
    try:
        async with (
            server(store) as registry,
            informed(registry.cache, handle, reports_missed_deletions=True) as informer,
        ):
            await synced(informer)
            for happening in happenings:
                if happening == "compact":
                    await registry.cache.compact()
                elif happening == "refill":
                    await registry.cache.refill()
                else:
                    await write(happening)
            await eventually(lambda: seen == {name: size for name, (_, size) in revisions.items()})
    finally:
        await store.close()
