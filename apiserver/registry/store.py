"""The generic resource: what each verb means, with hooks, preconditions and finalizers around storage.

Source of the rules: k8s.io/apiserver, pkg/registry/generic/registry/store.go and pkg/registry/rest.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from apiserver.brand import Brand
from apiserver.errors import AlreadyExists, Conflict, NotFound
from apiserver.meta import names, object_meta, timestamps
from apiserver.meta.options import DeleteOptions, ListOptions, WriteOptions
from apiserver.registry import chunks, conversion_codec, deletion, offload, write_stages
from apiserver.registry.allocations import NO_EXTRA_WRITES, Change, Refused
from apiserver.registry.guard import Guard
from apiserver.registry.results import Deleted, ObjectList
from apiserver.registry.selection import Selection, select
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.transactions import Commits
from apiserver.registry.uids import UidSource
from apiserver.registry.viewed_lists import _list_views
from apiserver.registry.write_stages import Admit, Track, Writer
from apiserver.vocabulary import Document, UserInfo
from storage.errors import KeyExists, RevisionCompacted, RevisionMismatch
from storage.interface import ANY, MOST_RECENT, ReadAt, Storage
from storage.keys import object_key, resource_prefix
from storage.watch_cache import KeyVersion, WatchCache

# How often a name is generated anew because the one before was taken. kube-apiserver: 8.
NAME_ATTEMPTS_MAX: Final = 8
# A list of more objects lets others have their turn before anything is done with all of them.
LIST_TURN_OBJECTS: Final = 10_000

Transform = Callable[[StoredObject], Document]
SchemaFindings = KeyVersion[StoredObject]
# Texts for the client, added to by whoever has one.
Warnings: TypeAlias = list[str]


class Registry:
    """Objects of all served resources over one store."""

    def __init__(
        self,
        store: Storage,
        cache: WatchCache[StoredObject],
        *,
        brand: Brand,
        prefix: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """prefix: of all keys, as `/registry`. clock: seconds since 1970."""
        self.cache = cache
        self._brand = brand
        self._prefix = prefix
        self._clock = clock
        self._commits = Commits(store, prefix=prefix)
        self._new_uid = UidSource()

    # ---- reads

    async def get(
        self, resource: ServedResource, namespace: str, name: str, at: ReadAt = MOST_RECENT
    ) -> StoredObject:
        """Raises NotFound, CorruptObject, and the storage's errors."""
        key = self.key(resource, namespace, name)
        # What is cached answers a read that takes anything; no other may be answered without asking.
        takes_cached = at is ANY and self.cache.is_filled
        version = self.cache.get_cached(key) if takes_cached else await self.cache.get(key, at)
        if version is None or version.value is None:
            raise NotFound(resource.group_resource, name)
        version.value.require_sound()
        return await conversion_codec.shown(resource, version.value)

    async def list(self, resource: ServedResource, namespace: str, options: ListOptions) -> ObjectList:
        """Raises BadRequest (a bad token), Expired, CorruptObject, and the storage's errors."""
        selection = self.selection(resource, namespace, options)
        keys, at = selection.keys, options.at
        folder, meta_version = keys.start, self._brand.meta_version
        if options.continue_token:
            keys, at = chunks.continued(keys, options.continue_token, meta_version)
        try:
            if selection.predicate is not None and selection.is_of_views:
                selects = selection.predicate
                found = await _list_views(self.cache, resource, selects, keys, at, options.limit)
            else:
                found = await self.cache.list(keys, at, limit=options.limit, predicate=selection.predicate)
        except RevisionCompacted:
            is_continued = bool(options.continue_token)
            raise chunks.expired_error(keys.start, folder, meta_version, is_continued=is_continued) from None
        token = ""
        if found.next_key is not None:
            token = chunks.token(found.revision, found.next_key, folder, meta_version)
        if len(found.versions) > LIST_TURN_OBJECTS:
            await asyncio.sleep(0)
        objects = [version.value for version in found.versions if version.value is not None]
        for each in objects:
            if not each.head:
                each.require_sound()
        objects = await conversion_codec.all_shown(resource, objects)
        return ObjectList(objects, found.revision, token, found.remaining)

    def key(self, resource: ServedResource, namespace: str, name: str) -> str:
        """Paths of Namespaces look as if these lay in themselves; no cluster-scoped object has a folder."""
        return object_key(self.prefix_of(resource), namespace if resource.is_namespaced else "", name)

    def prefix_of(self, resource: ServedResource) -> str:
        return resource_prefix(self._prefix, *resource.stored_group_resource)

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

    # ---- create

    async def create(
        self,
        resource: ServedResource,
        namespace: str,
        document: Document,
        options: WriteOptions,
        guard: Guard | None = None,
        *,
        user: UserInfo | None = None,
        warnings: Warnings | None = None,
        mutate: Admit | None = None,
        admit: Admit | None = None,
        track: Track | None = None,
        is_large: bool = False,
    ) -> StoredObject:
        """Store a new object. `document`, of the resource's version, has passed the schema and is taken over.

        guard: a condition of the write besides that the object is new.
        warnings: takes what the client should know of the object that was stored.
        user, mutate, admit, track, is_large: see `Writer`.
        Raises Invalid, AlreadyExists, what `guard`, `mutate` and `admit` raise, and the storage's errors.
        """
        writer = Writer(user, mutate, admit, track, is_large or resource.strategy.takes_long)
        document = resource.to_stored(document)
        meta = document["metadata"]
        write_stages.place(resource, namespace, document)
        if mutate is not None:
            await mutate(document, None)
        generates_name = not meta.get("name") and bool(meta.get("generateName"))
        for attempt in range(1, NAME_ATTEMPTS_MAX + 1):
            if generates_name:
                meta["name"] = ""
            try:
                created = await self._create_once(resource, namespace, document, options, guard, writer)
                if warnings is not None:
                    warnings += await offload.run(writer.is_large, resource.strategy.warn, document, None)
                return await conversion_codec.shown(resource, created)
            except AlreadyExists:
                if not generates_name or attempt == NAME_ATTEMPTS_MAX:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _create_once(
        self,
        resource: ServedResource,
        namespace: str,
        document: Document,
        options: WriteOptions,
        guard: Guard | None,
        writer: Writer,
    ) -> StoredObject:
        meta, now = document["metadata"], timestamps.to_text(self._clock())
        object_meta.prepare_create(meta, uid=self._new_uid(), now=now, generated_suffix=_random_suffix)
        await offload.run(writer.is_large, write_stages.prepare_create, resource, document, writer, now)
        await offload.run(writer.is_large, write_stages.check_create, resource, document)
        if writer.admit is not None:
            await writer.admit(document, None)
        name = meta["name"]
        key = self.key(resource, namespace, name)
        holder = self._commits.holder(resource, key)
        if holder is None:
            return await self._put_new(resource, key, document, options, guard, NO_EXTRA_WRITES)
        try:
            while True:
                filled = copy.deepcopy(document)
                change = await holder.fill(filled, None, is_dry_run=options.dry_run)
                try:
                    return await self._put_new(resource, key, filled, options, guard, change)
                except KeyExists as error:
                    if not await holder.may_retry(error.key):
                        raise
        except Refused as refused:
            raise write_stages.refusal(resource, name, [refused.error]) from None

    async def _put_new(
        self,
        resource: ServedResource,
        key: str,
        document: Document,
        options: WriteOptions,
        guard: Guard | None,
        change: Change,
    ) -> StoredObject:
        """Raises KeyExists if something that `change` adds is there already."""
        name = document["metadata"]["name"]
        guards = [guard] if guard is not None else []
        if resource.keeping is not None:
            guards.append(await resource.keeping.guard(name))
        value = await conversion_codec.value_of(resource, document)
        if options.dry_run:
            if await self.cache.get(key) is not None:
                raise AlreadyExists(resource.group_resource, name)
            return conversion_codec.stored(resource, key, value, None)
        try:
            revision = await self._commits.create(resource, key, value, guards, change)
        except KeyExists as error:
            if error.key != key:
                raise
            existing = await self.cache.get(key)
            raise AlreadyExists(
                resource.group_resource, name, is_terminating=_is_terminating(existing)
            ) from None
        return conversion_codec.stored(resource, key, value, revision)

    # ---- update and patch

    async def update(
        self,
        resource: ServedResource,
        namespace: str,
        name: str,
        transform: Transform,
        options: WriteOptions,
        *,
        strategy: UpdateStrategy | None = None,
        checks_uid: bool = False,
        user: UserInfo | None = None,
        warnings: Warnings | None = None,
        mutate: Admit | None = None,
        admit: Admit | None = None,
        track: Track | None = None,
        is_large: bool = False,
    ) -> StoredObject:
        """Replace the object with `transform(object)`, retrying until no writer races us.

        transform: the object -> a new document of the caller's own, which has passed the schema, both of the
            resource's version; pure, and may run again on a newer object. A resourceVersion in the document
            must be the object's, or is absent.
        strategy: of the subresource that is written; the resource's own if None.
        checks_uid: the new document's uid is a precondition rather than a change (PUT).
        warnings: takes what the client should know of the object that was stored.
        user, mutate, admit, track, is_large: see `Writer`.
        An unchanged object is not written and keeps its version. One that is being deleted and has lost
        its last finalizer is removed.
        Raises NotFound, Conflict, Invalid, what `transform`, `mutate` and `admit` raise, and the storage's
        errors.
        """
        told: Warnings = []
        writer = Writer(user, mutate, admit, track, is_large or resource.strategy.takes_long)
        updated = await self._update(
            *(resource, namespace, name, transform, options, strategy or resource.strategy.update, writer),
            checks_uid=checks_uid,
            told=told,
        )
        if warnings is not None:
            warnings += told
        return await conversion_codec.shown(resource, updated)

    async def _update(
        self,
        resource: ServedResource,
        namespace: str,
        name: str,
        transform: Transform,
        options: WriteOptions,
        rules: UpdateStrategy,
        writer: Writer,
        *,
        checks_uid: bool,
        told: Warnings,
    ) -> StoredObject:
        """Returns the object as it is stored. told: takes the warnings of the last attempt."""
        key = self.key(resource, namespace, name)
        holder, change = self._commits.holder(resource, key), NO_EXTRA_WRITES
        # A dry run has no write that would find out that the cached copy is an old one.
        current, is_fresh = None if options.dry_run else self.cache.get_cached(key), False
        unchanged_at = 0  # the revision of a copy that the write would leave as it is
        while True:
            if current is None:
                current, is_fresh = await self._fresh(resource, key, name), True
            found = current.value
            assert found is not None
            if current.revision == unchanged_at:
                return found
            shown = found if resource.keeping is None else await conversion_codec.shown(resource, found)
            old = shown.document()
            is_large = writer.is_large or len(found.tail) > offload.LARGE_BYTES
            try:
                new, is_unchanged = await self._changed(
                    *(resource, shown, old, transform, rules, writer),
                    checks_uid=checks_uid,
                    told=told,
                    is_large=is_large,
                )
                if holder is not None:
                    change = await holder.fill(new, old, is_dry_run=options.dry_run)
                    is_unchanged = False
            except Exception as error:
                if is_fresh and isinstance(error, Refused):
                    raise write_stages.refusal(resource, name, [error.error]) from None
                if is_fresh:
                    raise
                current = None  # A stale copy may fail where the stored object passes.
                continue
            version = old["metadata"].pop("resourceVersion")
            new["metadata"].pop("resourceVersion", None)
            is_removal = "deletionTimestamp" in old["metadata"] and deletion.may_be_removed(resource, new)
            # What is shown otherwise than it is stored is written, as it would be stored today.
            is_current = resource.keeping is None or (
                found.head == resource.stored_head and (shown is found or shown.head != found.head)
            )
            if is_current and not is_removal and (is_unchanged or write_stages.is_same(new, old)):
                if is_fresh:
                    return found
                # Only the stored object can tell that nothing changes.
                unchanged_at = current.revision
                current = None
                continue
            value = await conversion_codec.value_of(resource, new)
            if options.dry_run:
                return conversion_codec.stored(resource, key, value, int(version))
            try:
                if is_removal:
                    await self._commits.remove(resource, key, old, expected=current.revision)
                    return conversion_codec.stored(resource, key, value, int(version))
                revision = await self._commits.replace(
                    resource, key, value, expected=current.revision, change=change
                )
                return conversion_codec.stored(resource, key, value, revision)
            except RevisionMismatch:
                current = None
            except KeyExists as error:
                assert holder is not None  # Nothing else of an update creates a key.
                try:
                    await holder.may_retry(error.key)
                except Refused as refused:
                    raise write_stages.refusal(resource, name, [refused.error]) from None
                current = None

    async def _changed(
        self,
        resource: ServedResource,
        shown: StoredObject,
        old: Document,
        transform: Transform,
        rules: UpdateStrategy,
        writer: Writer,
        *,
        checks_uid: bool,
        told: Warnings,
        is_large: bool,
    ) -> tuple[Document, bool]:
        """What is to be stored in place of an object, and whether it is for sure what is stored already."""
        new = await offload.run(is_large, _transformed, resource, transform, shown)
        if writer.mutate is not None:
            await writer.mutate(new, old)
        now = timestamps.to_text(self._clock())
        arguments = (resource, rules, new, old, writer, now)
        is_unchanged = await offload.run(
            is_large, write_stages.prepare_update, *arguments, checks_uid=checks_uid
        )
        told[:] = await offload.run(
            is_large, write_stages.check_update, resource, rules, new, old, is_unchanged=is_unchanged
        )
        if writer.admit is not None:
            await writer.admit(new, old)
        return new, is_unchanged

    # ---- delete

    async def delete(
        self,
        resource: ServedResource,
        namespace: str,
        name: str,
        options: DeleteOptions,
        *,
        admit: Callable[[None, Document], Awaitable[None]] | None = None,
    ) -> Deleted:
        """Remove the object, or mark it and leave the rest to its finalizers or its grace period.

        admit: asked with the object before that is done.
        Raises NotFound, Conflict (preconditions), what `admit` raises, and the storage's errors.
        """
        key = self.key(resource, namespace, name)
        current, is_fresh = None if options.dry_run else self.cache.get_cached(key), False
        while True:
            if current is None:
                current, is_fresh = await self._fresh(resource, key, name), True
            assert current.value is not None
            try:
                return await self._delete_once(resource, key, current.value, current.revision, options, admit)
            except (RevisionMismatch, Conflict) as error:
                if is_fresh and isinstance(error, Conflict):
                    raise
                current = None

    async def _delete_once(
        self,
        resource: ServedResource,
        key: str,
        found: StoredObject,
        revision: int,
        options: DeleteOptions,
        admit: Callable[[None, Document], Awaitable[None]] | None,
    ) -> Deleted:
        seen = found if resource.keeping is None else await conversion_codec.shown(resource, found)
        document = seen.document()
        deletion.check_preconditions(resource, document, options)
        if admit is not None:
            await admit(None, document)
        uid = document["metadata"].get("uid", "")
        marked = deletion.marked(resource, copy.deepcopy(document), options, self._clock())
        is_removed = deletion.may_be_removed(resource, marked)
        if marked != document:
            value = await conversion_codec.value_of(resource, marked)
            if not options.dry_run:
                revision = await self._commits.mark(key, value, expected=revision)
            found = conversion_codec.stored(resource, key, value, revision)
            if is_removed and not options.dry_run:
                await self._remove_marked(resource, key, marked, revision, uid)
        elif options.dry_run:
            pass
        elif is_removed:
            await self._commits.remove(resource, key, document, expected=revision)
        else:
            # Nothing changes, which only the stored object can tell.
            await self._commits.require(key, expected=revision)
        return Deleted(await conversion_codec.shown(resource, found), is_removed, uid)

    async def _remove_marked(
        self, resource: ServedResource, key: str, document: Document, revision: int, uid: str
    ) -> None:
        """Remove an object that this deletion has marked and that has nothing to wait for."""
        while True:
            try:
                await self._commits.remove(resource, key, document, expected=revision)
            except RevisionMismatch:
                current = await self.cache.get(key)
                if current is None or current.value is None:
                    return  # Somebody else removed it.
                document = current.value.document()
                if document["metadata"].get("uid") != uid or not deletion.may_be_removed(resource, document):
                    return
                revision = current.revision
            else:
                return

    # ---- inside

    async def _fresh(self, resource: ServedResource, key: str, name: str) -> SchemaFindings:
        """Raises NotFound."""
        current = await self.cache.get(key)
        if current is None:
            raise NotFound(resource.group_resource, name)
        return current


def _transformed(resource: ServedResource, transform: Transform, found: StoredObject) -> Document:
    """What is to be stored in place of an object."""
    return resource.to_stored(transform(resource.view(found)))


def _random_suffix() -> str:
    return "".join(secrets.choice(names.GENERATED_ALPHABET) for _ in range(names.GENERATED_SUFFIX_LENGTH))


def _is_terminating(version: SchemaFindings | None) -> bool:
    if version is None or version.value is None:
        return False
    return "deletionTimestamp" in version.value.document()["metadata"]
