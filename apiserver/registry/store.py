"""Access to all served objects: reads come from the watch cache, and writes go to the store.

Source of the rules: k8s.io/apiserver, pkg/registry/generic/registry/store.go and pkg/registry/rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.errors import DAMAGED_CAUSES_MAX, NotFound, StorageReadError
from apiserver.meta.options import ListOptions
from apiserver.registry import continue_tokens, version_codec
from apiserver.registry.clock import SYSTEM_CLOCK, Clock
from apiserver.registry.delete_path import DeletePath
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.object_keys import ObjectKeys
from apiserver.registry.results import ObjectList
from apiserver.registry.selection import Selection, select
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.storage_form import StorageForms
from apiserver.registry.stored_object import DamagedObject, StoredObject
from apiserver.registry.transactions import NO_OBSERVERS, OwnWrites, Transactions, WriteObservers
from apiserver.registry.write_path import IsStale, WritePath
from apiserver.storage.errors import RevisionCompacted
from apiserver.storage.event_loop_turns import Turn
from apiserver.storage.interface import MOST_RECENT, KeyRange, ReadAt, Storage
from apiserver.storage.keys import after
from apiserver.storage.watch_cache import KeyVersion, Listing, WatchCache

# A list of more objects lets others have their turn before anything is done with all of them.
LIST_TURN_OBJECTS: Final = 10_000
# The first page of a list that is read in pages; those after it have about so many bytes.
FIRST_PAGE_OBJECTS: Final = 64
PAGE_OBJECTS_MAX: Final = 500
PAGE_BYTES: Final = 4 * 1024 * 1024
# How many objects are converted at a time, so that a list with a small limit need not wait for all of them.
VIEWS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ObjectStorage:
    """The storage of objects, and how they are stored.

    cache: the watch cache of the store. own_writes: records written values. prefix: that of all keys, as
        `/registry`.
    is_stale: see `write_path`; None if nothing is encrypted.
    forms: the forms of stored objects, where they do not follow from the release.
    observers: callbacks for metrics of writes. note: see `Transactions`.
    """

    store: Storage
    cache: WatchCache[StoredObject]
    own_writes: OwnWrites
    prefix: str
    is_stale: IsStale | None = None
    forms: StorageForms = field(default_factory=StorageForms)
    observers: WriteObservers = NO_OBSERVERS
    note: Callable[[], bytes] | None = None


class Registry:
    """Reads and writes objects of all served resources in one store.

    key: returns the key of an object. prefix_of: returns that of the keys of all objects of a resource. See
        `ObjectKeys.of` and `ObjectKeys.of_all`.
    create, update: store a new object, or replace one: see `write_path.WritePath`.
    delete, delete_unreadable: remove an object, or mark it as deleted: see `delete_path.DeletePath`.
    keys, transactions: for the write path of objects that are not stored: see `extensions.host`.
    """

    def __init__(
        self,
        storage: ObjectStorage,
        brand: Brand,
        offload: Offload,
        clock: Clock = SYSTEM_CLOCK,
        field_managers: FieldManagers | None = None,
    ) -> None:
        """offload: the server's; a request has its user's.

        field_managers: records the owners of fields that the server itself writes; if None, they have no
            owners.
        """
        self.clock = clock
        self.cache = cache = storage.cache
        self._brand = brand
        self.offload = offload
        self.keys = ObjectKeys(storage.prefix)
        self.key, self.prefix_of = self.keys.of, self.keys.of_all
        self.transactions = transactions = Transactions(
            storage.store,
            storage.own_writes,
            storage.forms,
            prefix=storage.prefix,
            clock=clock,
            observers=storage.observers,
            note=storage.note,
        )
        writes = WritePath(
            cache, transactions, self.keys, offload, clock.time, storage.is_stale, field_managers
        )
        self.create, self.update = writes.create, writes.update
        deletes = DeletePath(cache, transactions, self.keys, offload, clock.time)
        self.delete, self.delete_unreadable = deletes.delete, deletes.delete_unreadable

    # ---- reads

    async def get(
        self, resource: ServedResource, namespace: str, name: str, at: ReadAt = MOST_RECENT
    ) -> StoredObject:
        """Returns one object. Raises NotFound, CorruptObject, and the storage's errors."""
        version = await self.cache.get(self.key(resource, namespace, name), at)
        if version is None or (stored := version.value) is None:
            raise NotFound(resource.group_resource, name)
        if not stored.head:  # It is damaged.
            stored.require_sound()
        if resource.codec.is_identity:
            return stored
        return await version_codec.view(resource.codec, stored, self.offload)

    async def list(
        self, resource: ServedResource, namespace: str, options: ListOptions, *, counts_rest: bool = True
    ) -> ObjectList:
        """Returns the objects that the options select, or one chunk of them.

        counts_rest: whether a list with a limit says how many objects remain.
        Raises BadRequest (a bad token), Expired, CorruptObject, and the storage's errors.
        """
        selection = self.selection(resource, namespace, options)
        selects = selection.predicate.test if selection.predicate is not None else None
        keys, at = selection.keys, options.at
        folder, meta_version = keys.start, self._brand.meta_version
        if options.continue_token:
            keys, at = continue_tokens.decode_position(keys, options.continue_token, meta_version)
        try:
            if selects is not None and selection.is_of_views:
                found = await self._list_views(resource, selects, keys, at, options.limit)
            else:
                found = await self.cache.list(
                    keys, at, limit=options.limit, predicate=selects, counts_rest=counts_rest
                )
        except RevisionCompacted:
            is_continued = bool(options.continue_token)
            raise continue_tokens.expired_error(
                keys.start, folder, meta_version, is_continued=is_continued
            ) from None
        token = ""
        if found.next_key is not None:
            token = continue_tokens.continue_token(found.revision, found.next_key, folder, meta_version)
        if len(found.versions) > LIST_TURN_OBJECTS:
            await asyncio.sleep(0)
        objects = [version.value for version in found.versions if version.value is not None]
        _require_sound(resource, objects)
        if not resource.codec.is_identity:
            objects = await resource.codec.views(objects, self.offload)
        return ObjectList(objects, found.revision, token, found.remaining)

    async def _list_views(
        self,
        resource: ServedResource,
        selects: Callable[[StoredObject], bool],
        keys: KeyRange,
        at: ReadAt,
        limit: int,
    ) -> Listing[StoredObject]:
        """Returns a list of views, as the cache lists stored objects.

        Raises CorruptObject, ApiError where an object cannot be shown, and the errors of the cache.
        """
        selected: list[KeyVersion[StoredObject]] = []
        turn = Turn()
        while True:
            page = await self.cache.list(keys, at, limit=VIEWS_AT_ONCE if limit else 0)
            found = [(each, each.value) for each in page.versions if each.value is not None]
            _require_sound(resource, [value for _, value in found])
            views = await resource.codec.views([value for _, value in found], self.offload)
            for (each, _), view in zip(found, views, strict=True):
                if turn.is_over():
                    await turn.next()
                if selects(view):
                    version = KeyVersion(
                        each.key, view, revision=each.revision, create_revision=each.create_revision
                    )
                    selected.append(version)
            if limit and len(selected) > limit:
                del selected[limit:]
                return Listing(selected, page.revision, after(selected[-1].key), None)
            if page.next_key is None:
                return Listing(selected, page.revision, None, None)
            keys, at = KeyRange(page.next_key, keys.end), ReadAt.exactly(page.revision)

    async def pages(
        self, resource: ServedResource, namespace: str, options: ListOptions
    ) -> AsyncIterator[ObjectList]:
        """Yields a list in pages at one revision, with as many objects in total as the options allow.

        Raises as `list` does, including Expired if the store compacts the revision before the last page.
        """
        left, count = options.limit, FIRST_PAGE_OBJECTS
        while True:
            limit = min(count, left) if options.limit else count
            asked = options._replace(limit=limit)
            # What remains matters behind the last page.
            page = await self.list(resource, namespace, asked, counts_rest=limit == left)
            yield page
            left -= len(page.objects)
            if not page.continue_token or (options.limit and left <= 0):
                return
            size = sum([len(each.tail) for each in page.objects])
            count = max(1, min(PAGE_OBJECTS_MAX, PAGE_BYTES * len(page.objects) // max(size, 1)))
            options = options._replace(continue_token=page.continue_token)

    def at_revision(self, options: ListOptions, revision: int) -> ListOptions:
        """Returns options that read the same list again. revision: that of the first read."""
        if not options.continue_token:
            return options._replace(at=ReadAt.exactly(revision))
        token = continue_tokens.token_at_revision(options.continue_token, revision, self._brand.meta_version)
        return options._replace(continue_token=token)

    def count(self, resource: ServedResource) -> int:
        """Returns how many objects of a resource the cache has."""
        cached = self.cache.resources.get(self.prefix_of(resource))
        return len(cached.snapshots) if cached is not None else 0

    def selection(
        self, resource: ServedResource, namespace: str, options: ListOptions, *, name: str = ""
    ) -> Selection:
        return select(
            resource,
            self.prefix_of(resource),
            namespace=namespace,
            name=name,
            labels=options.labels,
            fields=options.fields,
        )


def _require_sound(resource: ServedResource, objects: list[StoredObject]) -> None:
    """Require that objects are readable."""
    damaged = [each for each in objects if not each.head]
    if damaged:
        # One more than are reported, to report that there are more: if a key is missing, all objects are
        # damaged.
        told = damaged[: DAMAGED_CAUSES_MAX + 1]
        errors = [each.error for each in told if isinstance(each, DamagedObject)]
        raise StorageReadError.of_list(resource.group_resource, [(error.key, error.text) for error in errors])
