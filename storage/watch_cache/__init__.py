"""A store's contents in memory, in front of the store: reads and watches without asking it.

One watch on everything below the prefix feeds it (`reflector`); each resource has a cache of its own
(`resource`), made of

- `snapshots`: for every key its newest version and, linked to it, the older ones that are still kept. A
  list at any kept revision walks the keys in order and takes from each the newest version that is not
  younger. Taking a snapshot costs nothing, because nothing is copied.
- `history`: the changes in revision order, bounded by age, count and bytes. What falls out of it takes
  the versions with it that only older reads could need.
- `fanout`: who watches what. Watchers are found by resource, namespace and name, so that a change costs
  nothing to those it cannot concern. Each takes what happened before it came from the history, a part at
  a time, and what happens then from a queue with a bound (`watcher`). One that does not keep up, or keeps
  alive what the history has let go of, is dropped, never waited for.

What readers may rely on:

- A Most Recent read sees every write answered before it began. The store is asked for its revision and
  the answer waits until the cache has reached it (`progress`); if that takes too long the store answers.
- An exact read gives the state at that revision, from memory while it is kept, from the store after that.
- A watch misses nothing and repeats nothing. When the upstream watch breaks it is resumed after the last
  revision seen. When the store has compacted that away, everything is listed anew, and every watcher that
  may have missed something is ended. There is never a hole.

The values are opaque here: `decode` turns what is stored into what readers want, once for each version.
"""

from storage.watch_cache.cache import Listing, WatchCache
from storage.watch_cache.events import Change, EventType
from storage.watch_cache.fanout import EVERYTHING, Scope
from storage.watch_cache.history import HistoryLimits
from storage.watch_cache.snapshots import KeyVersion
from storage.watch_cache.watcher import Watcher

__all__ = [
    "EVERYTHING",
    "Change",
    "EventType",
    "HistoryLimits",
    "KeyVersion",
    "Listing",
    "Scope",
    "WatchCache",
    "Watcher",
]
