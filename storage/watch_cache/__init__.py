"""Serves reads and watches from memory, in front of a store.

One watch on everything below the prefix feeds it (`reflector`, and `cache_updater`, which sorts by resource).
Each resource has its own cache (`resource`; all of them, and their common budget: `resources`), made of

- `snapshots`: for every key its newest version and, linked to it, the older ones that are still kept. A list
  at any kept revision walks the keys in order and takes from each the newest version up to that revision.
  Taking a snapshot costs nothing, because nothing is copied.
- `history`: the events in revision order, bounded by age, count and bytes. When an event is evicted, so are
  the versions that only reads older than it could need. Events up to five minutes old take no more bytes than
  the objects do; those younger than 75 s may take much more.
- `fanout`: the watchers by scope. They are found by resource, namespace and name, and by a value that all
  their selected objects share, so that an event costs nothing to watchers it cannot concern. An event is
  tested once for all watchers with equal selectors. Each first takes past events from the history, a part at
  a time, and then new ones from a bounded queue (`watcher`). A watcher that does not keep up, or that keeps
  evicted versions alive, is dropped; the cache never waits for it.

Readers may rely on these guarantees:

- A Most Recent read sees every write answered before it began. The store returns its revision, and the
  response waits until the cache has reached it (`freshness`, `progress`); if that takes too long the store
  answers (`lists`).
- An exact read gives the state at that revision, from memory while it is kept, from the store after that.
- A watch misses no event and repeats none. When the watch on the store breaks, it is resumed after the last
  revision seen. When the store has compacted that revision, everything is listed again, and all watchers are
  ended, because they may have missed events.

Values are opaque here: `decode` turns each stored version into the reader's form, once.

A cache in front of a copy of another store in the process begins with the state of that store's cache
(`state`): nothing is listed or decoded again.
"""

from apiserver.storage.watch_cache.cache import WatchCache
from apiserver.storage.watch_cache.cache_updater import ChangeFollower, NonObjectKeys
from apiserver.storage.watch_cache.events import CacheEvent, EventType
from apiserver.storage.watch_cache.fanout import EVERYTHING, WatchScope
from apiserver.storage.watch_cache.history import HistoryLimits
from apiserver.storage.watch_cache.lists import Listing
from apiserver.storage.watch_cache.options import WatchCacheOptions
from apiserver.storage.watch_cache.snapshots import KeyVersion
from apiserver.storage.watch_cache.state import CacheState
from apiserver.storage.watch_cache.watcher import Watcher

__all__ = [
    "EVERYTHING",
    "CacheEvent",
    "CacheState",
    "ChangeFollower",
    "EventType",
    "HistoryLimits",
    "KeyVersion",
    "Listing",
    "NonObjectKeys",
    "WatchCache",
    "WatchCacheOptions",
    "WatchScope",
    "Watcher",
]
