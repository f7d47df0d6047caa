"""The contents of a store in memory, in front of the store: reads and watches are served without asking it.

One watch on everything below the prefix feeds it (`reflector`, and `cache_updater`, which sorts by resource).
Each resource has a cache of its own (`resource`; all of them, and their common budget: `resources`), made of

- `snapshots`: for every key its newest version and, linked to it, the older ones that are still kept. A
  list at any kept revision walks the keys in order and takes from each the newest version that is not
  younger. Taking a snapshot costs nothing, because nothing is copied.
- `history`: the events in revision order, bounded by age, count and bytes. When an event is evicted, so are
  the versions that only reads older than it could need. For five minutes it has no more of them than there
  are objects, in bytes; what is younger than 75 s may be much more.
- `fanout`: the watchers by what they watch. They are found by resource, namespace and name, and by a value
  that all they select has in common, so that an event costs nothing to watchers it cannot concern. Where
  watchers select the same, an event is tested once for all of them. Each first takes past events from the
  history, a part at a time, and then new ones from a bounded queue (`watcher`). A watcher that does not keep
  up, or that keeps evicted versions alive, is dropped, never waited for.

What readers may rely on:

- A Most Recent read sees every write answered before it began. The store is asked for its revision and
  the answer waits until the cache has reached it (`freshness`, `progress`); if that takes too long the store
  answers (`lists`).
- An exact read gives the state at that revision, from memory while it is kept, from the store after that.
- A watch misses no event and repeats none. When the watch on the store breaks, it is resumed after the last
  revision seen. When the store has compacted that revision, everything is listed again, and all watchers are
  ended, because they may have missed events.

The values are opaque here: `decode` turns what is stored into what readers want, once for each version.

A cache in front of a copy of another store in the process begins with what that one's cache held (`state`):
nothing is listed, and nothing decoded again.
"""

from apiserver.storage.watch_cache.cache import WatchCache
from apiserver.storage.watch_cache.cache_updater import NonObjectKeys
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
