"""A request for changes is bounded, and says where to continue."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import pytest

from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.registry.history.authors import CURRENT_CALL, encoded
from apiserver.registry.history.forms import RecordedForms
from apiserver.registry.history.past import PastReads
from apiserver.registry.history.policy import HistoryPolicy
from apiserver.registry.history.recent_changes import (
    FOUND_AT_ONCE,
    PLACES_MAX,
    ROWS_SCANNED_MAX,
    VALUES_BYTES_MAX,
    ChangesPage,
    ChangesQuery,
    Place,
    PlacedChange,
    RecentChanges,
)
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import ObjectStorage, Registry
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.registry.transactions import OwnWrites
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.history.changes import Author, Span
from apiserver.storage.history.past_values import Value
from apiserver.storage.history.undo_log import Limits, UndoLog
from apiserver.storage.interface import KeyRange, Put
from apiserver.storage.keys import after
from tests.support.served import TABLE
from tests.unit.registry.history.test_authors import Call
from tests.unit.registry.history.test_recorder import PREFIX, Recording, running, value

WRITES_AT_ONCE: Final = 100
LIMIT: Final = 500


class Reading:
    """A history of ConfigMaps, and what a user who may see `open_namespaces` is asked and told."""

    def __init__(self, store: EmbeddedStore, *, closed: frozenset[str] = frozenset()) -> None:
        log = self.log = UndoLog(None, Limits(bytes_max=1 << 30, age_s_max=1e9))
        self.recording = Recording(store, log)
        storage = ObjectStorage(
            store=store, cache=self.recording.cache, own_writes=OwnWrites(), prefix=PREFIX
        )
        self.past = PastReads(
            Registry(storage, Brand(), Offload()),
            log,
            self.recording.recorder,
            RecordedForms(PREFIX, b"k" * 32, HistoryPolicy((), PREFIX)),
            StoredVersionDecoder(OwnWrites(), prefix=PREFIX),
            lambda: 1_000.0,
        )
        self._changes = RecentChanges(self.past, log, ServedTable(TABLE), PREFIX)
        self._closed = closed
        # Called when a right is asked for, which is between the parts of a read.
        self.meanwhile: Callable[[], object] = lambda: None
        self.asked: Counter[Place] = Counter()

    async def write(self, keys: Sequence[str], text: str, user: str) -> None:
        """Write ConfigMaps, many in each transaction. keys: `NAMESPACE/NAME`."""
        CURRENT_CALL.set(Call(Author(user), ""))
        note = self.recording.notes.note()
        assert encoded(Author(user)) in note
        for at in range(0, len(keys), WRITES_AT_ONCE):
            puts = [
                Put(f"{PREFIX}/core/configmaps/{each}", value(text))
                for each in keys[at : at + WRITES_AT_ONCE]
            ]
            await self.recording.store.transact((), puts, note=note)

    async def _may_see(self, place: Place) -> bool:
        self.asked[place] += 1
        self.meanwhile()
        return place.namespace not in self._closed

    async def page(self, span: Span, position: int = 0, user: str = "", limit: int = LIMIT) -> ChangesPage:
        self.asked.clear()
        return await self._changes.read(ChangesQuery(span, position, limit, user, ""), self._may_see)


@asynccontextmanager
async def reading(closed: frozenset[str] = frozenset()) -> AsyncIterator[Reading]:
    store = await EmbeddedStore.in_memory()
    try:
        made = Reading(store, closed=closed)
        async with running(made.recording):
            yield made
    finally:
        await store.close()


def names(page: ChangesPage) -> list[str]:
    return [each.name for each in page.entries if isinstance(each, PlacedChange)]


async def test_a_request_looks_at_so_many_changes() -> None:
    """Though it has found few of those that it looks for."""
    async with reading() as made:
        await made.write(["a/rare"], "1", "rare")
        await made.write([f"a/{number}" for number in range(ROWS_SCANNED_MAX)], "1", "often")
        span = await made.past.span("", "")
        first = await made.page(span, user="rare")
        assert names(first) == []
        last = await made.page(span, first.position, user="rare")
        assert (names(last), last.position) == (["rare"], 0)


async def test_a_request_asks_for_so_many_rights_and_for_each_once() -> None:
    closed = frozenset(f"n{number}" for number in range(2 * PLACES_MAX))
    async with reading(closed) as made:
        await made.write(["open/first"], "1", "ann")
        await made.write(
            [f"n{number}/{name}" for number in range(2 * PLACES_MAX) for name in "abc"], "1", "ann"
        )
        span, position, found = await made.past.span("", ""), 0, []
        for _ in range(4):
            page = await made.page(span, position)
            assert len(made.asked) < PLACES_MAX + FOUND_AT_ONCE
            assert set(made.asked.values()) == {1}
            found += names(page)
            if not (position := page.position):
                break
        assert (found, position) == (["first"], 0)


async def test_a_request_reads_so_many_bytes() -> None:
    text = "x" * (VALUES_BYTES_MAX // 32)
    async with reading() as made:
        for number in range(100):
            await made.write([f"a/{number}"], text, "ann")
        span, position = await made.past.span("", ""), 0
        pages: list[list[str]] = []
        while not pages or position:
            page = await made.page(span, position)
            pages.append(names(page))
            position = page.position
        assert [name for each in pages for name in each] == [str(number) for number in range(100)][::-1]
        assert max(map(len, pages)) <= 32 + FOUND_AT_ONCE


@pytest.mark.parametrize("limit", [1, 24, 25, 26])
async def test_a_page_has_no_more_than_its_limit(limit: int) -> None:
    async with reading() as made:
        await made.write([f"a/{number:03}" for number in range(60)], "1", "ann")
        span = await made.past.span("", "")
        page = await made.page(span, limit=limit)
        assert names(page) == [f"{number:03}" for number in range(60)][::-1][:limit]
        assert page.position


async def test_each_change_has_the_state_before_it_though_others_were_in_between() -> None:
    async with reading() as made:
        for number in range(200):
            await made.write(["a/one", "a/two"][: 1 + number % 2], str(number), f"user-{number % 3}")
        span = await made.past.span("", "")
        for user, numbers in (("", range(200)), ("user-1", range(1, 200, 3))):
            page = await made.page(span, user=user)
            found = [each for each in page.entries if isinstance(each, PlacedChange) and each.name == "one"]
            assert [each.version.value for each in found] == [value(str(number)) for number in numbers[::-1]]
            before = [None if each.before is None else each.before.value for each in found]
            assert before == [value(str(number - 1)) if number else None for number in numbers[::-1]]


async def test_what_is_purged_meanwhile_is_left_out() -> None:
    async with reading() as made:
        for number in range(3):
            await made.write(["a/kept", "a/purged"], str(number), "ann")
        span, purged = await made.past.span("", ""), f"{PREFIX}/core/configmaps/a/purged"
        made.meanwhile = lambda: made.log.purge(purged.__eq__, purged, KeyRange(purged, after(purged)))
        page = await made.page(span)
        assert (names(page), page.position) == (["kept"] * 3, 0)


async def test_what_is_dropped_meanwhile_as_it_matters_little_is_left_out() -> None:
    """It is counted in the version that follows it."""
    async with reading() as made:
        for number in range(10):
            await made.write(["a/kept", "a/thinned"], str(number), "ann")
        span, thinned = await made.past.span("", ""), f"{PREFIX}/core/configmaps/a/thinned"
        newest = Value(value("9"), span.until)
        count = 0

        def thin() -> None:
            nonlocal count
            while (old := made.log.old_rows(10**12, thinned.__eq__)) is not None:
                is_odd = lambda _, after: int(after.partition(b'"k":"')[2][:1]) % 2 == 1  # noqa: E731
                count += made.log.thin(old, {thinned: newest}.get, span.until, is_odd)

        made.meanwhile = thin
        page = await made.page(span)
        assert count == 4  # The last version is kept.
        found = [each for each in page.entries if isinstance(each, PlacedChange) and each.name == "thinned"]
        assert [each.version.value for each in found] == [value(each) for each in "986420"]
        assert [each.version.thinned for each in found] == [0, 1, 1, 1, 1, 0]
        assert names(page).count("kept") == 10
