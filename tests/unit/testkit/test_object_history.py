"""The versions of one object that the store still has."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from apiserver.storage.embedded import EmbeddedStore
from apiserver.testkit.object_history import LastEvents, read_events

KEY = "/registry/core/configmaps/default/a"


@pytest.fixture
async def store() -> AsyncIterator[EmbeddedStore]:
    """Of a key, with three versions and a deletion, and others."""
    store = await EmbeddedStore.in_memory()
    revision = await store.create(KEY, b"one")
    await store.create(f"{KEY}b", b"of another")
    revision = await store.compare_and_put(KEY, b"two", expected=revision)
    revision = await store.compare_and_put(KEY, b"three", expected=revision)
    await store.compare_and_delete(KEY, expected=revision)
    yield store
    await store.close()


async def values(store: EmbeddedStore, last: LastEvents) -> list[bytes | None]:
    await read_events(store, KEY, last)
    return [event.value for event in last.events]


async def test_all_of_one_key(store: EmbeddedStore) -> None:
    last = LastEvents()
    assert await values(store, last) == [b"one", b"two", b"three", None]
    assert last.is_complete


async def test_what_is_left_of_a_compacted_history(store: EmbeddedStore) -> None:
    """The state at the oldest revision is the first."""
    await store.compact(await store.current_revision() - 2)
    last = LastEvents()
    assert await values(store, last) == [b"two", b"three", None]
    assert not last.is_complete


async def test_nothing_is_left(store: EmbeddedStore) -> None:
    await store.compact(await store.current_revision())
    last = LastEvents()
    assert await values(store, last) == []
    assert not last.is_complete


async def test_as_many_as_are_kept(store: EmbeddedStore) -> None:
    last = LastEvents(versions_max=2)
    assert await values(store, last) == [b"three", None]
    assert not last.is_complete


async def test_as_much_as_is_kept(store: EmbeddedStore) -> None:
    last = LastEvents(bytes_max=8)
    assert await values(store, last) == [b"two", b"three", None]
    assert not last.is_complete
