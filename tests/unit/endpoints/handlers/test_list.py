"""How lists of the newest state are read, beneath HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from apiserver.endpoints.handlers.list import ATTEMPTS_MAX, read_newest
from apiserver.meta.errors import Expired
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.interface import MOST_RECENT
from tests.storage.test_watch_cache_counts import AheadStore, counted, running
from tests.support.cache_as_storage import UNCHECKED
from tests.support.resource_cache import ALL, P

# How often the revision of a list has been compacted before it was read, whether the cache was late, and how
# many lists are counted that found it up to date, or late, or failed then, or failed before.
LISTS: Final[dict[str, tuple[int, bool, tuple[int, int, int, int]]]] = {
    "at once": (0, False, (1, 0, 0, 0)),
    "at the third attempt": (2, False, (1, 0, 0, 0)),
    "never": (ATTEMPTS_MAX, False, (1, 0, 0, 0)),
    "late": (0, True, (0, 1, 0, 0)),
    "late, at the third attempt": (2, True, (0, 1, 0, 0)),
    "late, never": (ATTEMPTS_MAX, True, (0, 0, 1, 0)),
}


@pytest.mark.parametrize(("compacted", "is_late", "counts"), LISTS.values(), ids=LISTS)
async def test_a_list_is_counted_once_however_often_it_is_read(
    tmp_path: Path, compacted: int, is_late: bool, counts: tuple[int, int, int, int]
) -> None:
    store = AheadStore(await EmbeddedStore.open(tmp_path / "data", durable=False))
    await store.create(P + "a", b"")
    async with running(store, [], UNCHECKED._replace(catch_up_wait_s=0.01)) as cache:
        newest = await store.current_revision()
        store.ahead, store.ahead_once = int(is_late), True
        read_at: list[int] = []

        async def read(revision: int) -> str:
            read_at.append(revision)
            if len(read_at) <= compacted:
                raise Expired("compacted")
            return "listed"

        reading = read_newest(cache, MOST_RECENT, ALL.start, read)
        if compacted == ATTEMPTS_MAX:
            with pytest.raises(Expired):
                await reading
        else:
            assert await reading == "listed"
        assert len(read_at) == min(compacted + 1, ATTEMPTS_MAX)
        assert set(read_at) == {newest}
        assert counted(cache) == counts
