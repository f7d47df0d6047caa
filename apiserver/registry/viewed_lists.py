"""Lists of what is selected by what clients see of it, where to tell that may take asking somebody."""

from __future__ import annotations

from typing import Final

from apiserver.registry.selection import Predicate
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from storage.interface import KeyRange, ReadAt
from storage.keys import after
from storage.watch_cache import KeyVersion, Listing, WatchCache

# Who asks for few objects need not wait until all have been converted.
VIEWED_AT_ONCE: Final = 500


async def _list_views(
    cache: WatchCache[StoredObject],
    resource: ServedResource,
    selects: Predicate,
    keys: KeyRange,
    at: ReadAt,
    limit: int,
) -> Listing[StoredObject]:
    """As the cache lists, of views; `selects` is asked about these alone.

    Raises CorruptObject, ApiError where an object cannot be shown, and what the cache raises.
    """
    selected: list[KeyVersion[StoredObject]] = []
    while True:
        page = await cache.list(keys, at, limit=VIEWED_AT_ONCE if limit else 0)
        found = [(each, each.value) for each in page.versions if each.value is not None]
        for _, value in found:
            value.require_sound()
        views = await resource.shown([value for _, value in found])
        selected += [
            KeyVersion(each.key, view, revision=each.revision, create_revision=each.create_revision)
            for (each, _), view in zip(found, views, strict=True)
            if selects(view)
        ]
        if limit and len(selected) > limit:
            del selected[limit:]
            return Listing(selected, page.revision, after(selected[-1].key), None)
        if page.next_key is None:
            return Listing(selected, page.revision, None, None)
        keys, at = KeyRange(page.next_key, keys.end), ReadAt.exactly(page.revision)
