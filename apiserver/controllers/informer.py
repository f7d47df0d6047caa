"""How controllers learn of objects: all there are, then each that changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from apiserver.registry.stored_object import StoredObject
from storage.errors import RevisionCompacted, StorageError
from storage.keys import prefix_range
from storage.watch_cache import EVERYTHING, KeyVersion, WatchCache

log = logging.getLogger(__name__)

# After the place was lost.
RETRY_S: Final = 1.0


async def follow(
    cache: WatchCache[StoredObject],
    prefix: str,
    *,
    only_changes: bool = False,
    on_listed: Callable[[set[str]], None] | None = None,
) -> AsyncIterator[tuple[str, StoredObject | None]]:
    """Each object of a resource by its key, as it is and whenever it changes; None for one that is gone.

    only_changes: not as it is now.
    on_listed: called with the keys of all that are there, once each has been given.
    Ends when changes may have been missed. Raises RevisionCompacted, and the storage's errors.
    """
    something = asyncio.Event()
    versions: Sequence[KeyVersion[StoredObject]] = ()
    revision = cache.revision
    if not only_changes:
        listing = await cache.list(prefix_range(prefix))
        versions, revision = listing.versions, listing.revision
    watcher = cache.watch(prefix, after=revision, scope=EVERYTHING, on_ready=something.set)
    try:
        for version in versions:
            yield version.key, version.value
        if on_listed is not None:
            on_listed({version.key for version in versions})
        while not watcher.is_ended:
            for delivery in watcher.take():
                yield delivery.event.version.key, delivery.event.version.value
            if not len(watcher):
                await something.wait()
                something.clear()
    finally:
        cache.unwatch(prefix, watcher, EVERYTHING)


async def follow_for_ever(
    cache: WatchCache[StoredObject],
    prefix: str,
    on_object: Callable[[str, StoredObject | None], None],
    *,
    only_changes: bool = False,
    on_listed: Callable[[set[str]], None] | None = None,
) -> None:
    """Call `on_object` for each object of a resource, beginning again whenever the place is lost.

    only_changes: not for those that are there; changes made when the place is lost may be missed.
    on_listed: each time, called with the keys of all that are there, once `on_object` was called for each.
    """
    await cache.wait_until_filled()
    while True:
        try:
            async for key, found in follow(cache, prefix, only_changes=only_changes, on_listed=on_listed):
                on_object(key, found)
        except (RevisionCompacted, StorageError) as error:
            log.warning("%s cannot be followed, trying again: %s", prefix, error)
        await asyncio.sleep(RETRY_S)
