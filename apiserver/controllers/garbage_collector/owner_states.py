"""Tells what has become of an owner."""

from __future__ import annotations

from apiserver.controllers.garbage_collector.graph import Owner
from apiserver.controllers.garbage_collector.object_owners import Malformed, ownership
from apiserver.controllers.garbage_collector.rules import OwnerState
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.watch_cache import KeyVersion, WatchCache


def cached_state(cache: WatchCache[StoredObject], owner: Owner) -> OwnerState:
    """Returns the state of an owner as far as the cache knows. Raises CorruptObject."""
    return _state(cache.get_cached(owner.key), owner)


async def live_state(cache: WatchCache[StoredObject], owner: Owner) -> OwnerState:
    """Returns the state of an owner. That it is absent, the store is asked, once.

    Raises CorruptObject, and the storage's errors.
    """
    if owner.is_absent:
        return OwnerState.ABSENT
    state = cached_state(cache, owner)
    if state is OwnerState.ABSENT:
        state = _state(await cache.get(owner.key), owner)
        owner.is_absent = state is OwnerState.ABSENT
    return state


def _state(version: KeyVersion[StoredObject] | None, owner: Owner) -> OwnerState:
    if version is None or version.value is None:
        return OwnerState.ABSENT
    try:
        found = ownership(version.value)
    except Malformed:
        return OwnerState.UNKNOWN
    if found.uid != owner.uid:
        return OwnerState.ABSENT
    return OwnerState.WAITING if found.waits_for_dependents else OwnerState.SOLID
