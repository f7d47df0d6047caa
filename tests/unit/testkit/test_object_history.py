"""The versions of one object that the store still has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

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


# How many revisions are left before the newest one, or None for all; the bounds, and what there is then.
HISTORIES: Final[dict[str, tuple[int | None, dict[str, int], list[bytes | None]]]] = {
    "all of one key": (None, {}, [b"one", b"two", b"three", None]),
    "a compacted history begins with the state at its oldest revision": (2, {}, [b"two", b"three", None]),
    "nothing is left": (0, {}, []),
    "as many as are kept": (None, {"versions_max": 2}, [b"three", None]),
    "as much as is kept": (None, {"bytes_max": 8}, [b"two", b"three", None]),
}


@pytest.mark.parametrize(("left", "bounds", "values"), HISTORIES.values(), ids=HISTORIES)
async def test_the_last_events(
    store: EmbeddedStore, left: int | None, bounds: dict[str, int], values: list[bytes | None]
) -> None:
    if left is not None:
        await store.compact(await store.current_revision() - left)
    last = LastEvents(**bounds)
    await read_events(store, KEY, last)
    assert [event.value for event in last.events] == values
    assert last.is_complete is (len(values) == 4)
