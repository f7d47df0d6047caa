"""The generic resource: what each verb means, with hooks, preconditions and finalizers around storage.

Source of the rules: k8s.io/apiserver, pkg/registry/generic/registry/store.go and pkg/registry/rest.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import orjson

from apiserver.brand import Brand
from apiserver.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Invalid,
    NotFound,
)
from apiserver.field_errors import FieldError, invalid, quote
from apiserver.meta import names, object_meta, timestamps
from apiserver.meta.options import DeleteOptions, ListOptions, WriteOptions
from apiserver.registry import aside
from apiserver.registry.claims import NO_CHANGE, Change, Holder, Refused
from apiserver.registry.guard import Guard
from apiserver.registry.results import Deleted, ObjectList
from apiserver.registry.selection import Selection, select
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject, TooDeep, encode, with_revision
from apiserver.registry.strategy import Stamp, UpdateStrategy
from apiserver.registry.uids import UidSource
from apiserver.vocabulary import Document, GroupKind, UserInfo
from storage.continue_token import ContinueToken, InvalidToken, decode_token
from storage.errors import KeyExists, LeaseNotFound, RevisionCompacted, RevisionMismatch
from storage.interface import (
    ANY,
    MOST_RECENT,
    NO_LEASE,
    Condition,
    Delete,
    KeyRange,
    Put,
    ReadAt,
    Storage,
)
from storage.keys import object_key, resource_prefix
from storage.lease_pool import LeasePool
from storage.revision import InvalidRevision, parse_revision
from storage.watch_cache import Version, WatchCache

# A hundred years: the calendar has an end.
GRACE_S_MAX: Final = 100 * 365 * 86_400
GENERATION_MAX: Final = (1 << 63) - 1
# How often a name is generated anew because the one before was taken. kube-apiserver: 8.
NAME_ATTEMPTS_MAX: Final = 8
# A list of more objects lets others have their turn before anything is done with all of them.
LIST_TURN_OBJECTS: Final = 10_000
CONVERTED_AT_ONCE: Final = 50
# Nobody reads more, and a body may have a million things wrong.
ERRORS_MAX: Final = 1_000

Transform = Callable[[StoredObject], Document]
# The stored form of an object as it would be, and as it is (None for a new one): the last word about a write.
Admit = Callable[[Document, Document | None], Awaitable[None]]
# (new, old, the managedFields that the client sent): writes into the stored form of an object as it would be
# who owns what of it. `old` is None for a new object.
Track = Callable[[Document, Document | None, Any], None]
Found = Version[StoredObject]
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
        self._store = store
        self.cache = cache
        self._brand = brand
        self._prefix = prefix
        self._clock = clock
        self._leases = LeasePool(store)
        self._new_uid = UidSource()

    # ---- reads

    async def get(
        self, resource: ServedResource, namespace: str, name: str, at: ReadAt = MOST_RECENT
    ) -> StoredObject:
        """Raises NotFound, CorruptObject, and the storage's errors."""
        key = self.key(resource, namespace, name)
        # What is cached answers a read that takes anything; no other may be answered without asking.
        takes_cached = at is ANY and self.cache.is_filled
        version = self.cache.peek(key) if takes_cached else await self.cache.get(key, at)
        if version is None or version.value is None:
            raise NotFound(resource.group_resource, name)
        version.value.require_sound()
        return await self._shown(resource, version.value)

    async def list(self, resource: ServedResource, namespace: str, options: ListOptions) -> ObjectList:
        """Raises BadRequest (a bad token), Expired, CorruptObject, and the storage's errors."""
        selection = self.selection(resource, namespace, options)
        keys, at = selection.keys, options.at
        folder = keys.start
        if options.continue_token:
            keys, at = self._continued(selection.keys, options.continue_token)
        try:
            if resource.keeping is not None:
                at = await self._show_fields(resource, options, keys, at)
            found = await self.cache.list(keys, at, limit=options.limit, predicate=selection.predicate)
        except RevisionCompacted:
            raise self._expired(options, keys, folder) from None
        token = ""
        if found.next_key is not None:
            token = self._token(found.revision, found.next_key, folder)
        if len(found.versions) > LIST_TURN_OBJECTS:
            await asyncio.sleep(0)
        objects = [version.value for version in found.versions if version.value is not None]
        for each in objects:
            if not each.head:
                each.require_sound()
        if resource.keeping is not None:
            objects = await resource.keeping.show(objects)
        elif resource.conversion is not None:
            objects = await _views(resource, objects)
        return ObjectList(objects, found.revision, token, found.remaining)

    async def _show_fields(
        self, resource: ServedResource, options: ListOptions, keys: KeyRange, at: ReadAt
    ) -> ReadAt:
        """Have all objects as clients see them, if they are selected by that. Returns as of when."""
        if not any(each.field in resource.selectable_fields for each in options.fields.requirements):
            return at
        everything = await self.cache.list(keys, at)
        await resource.shown([each.value for each in everything.versions if each.value is not None])
        return ReadAt.exactly(everything.revision)

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
        user: who writes; None for the server itself.
        warnings: takes what the client should know of the object that was stored.
        mutate, admit: asked before and after the resource's own rules; the first may change the object.
        track: asked when the object is as it will be stored; without it nobody owns anything.
        is_large: others need not wait while the document is checked.
        Raises Invalid, AlreadyExists, what `guard`, `mutate` and `admit` raise, and the storage's errors.
        """
        is_large = is_large or resource.strategy.takes_long
        document = resource.to_stored(document)
        meta = document["metadata"]
        version = meta.pop("resourceVersion", "")
        if version not in ("", "0"):
            # Row B14; kube-apiserver answers 500 here.
            problem = invalid("metadata.resourceVersion", version, "must not be set on objects to be created")
            raise self._invalid(resource, meta.get("name", ""), [problem])
        if resource.is_namespaced:
            meta["namespace"] = namespace
        else:
            meta.pop("namespace", None)
        if mutate is not None:
            await mutate(document, None)
        generates_name = not meta.get("name") and bool(meta.get("generateName"))
        for attempt in range(1, NAME_ATTEMPTS_MAX + 1):
            if generates_name:
                meta["name"] = ""
            try:
                created = await self._create_once(
                    resource, namespace, document, options, guard, user, admit, track, is_large
                )
                if warnings is not None:
                    warnings += await aside.run(is_large, resource.strategy.warn, document, None)
                return await self._shown(resource, created)
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
        user: UserInfo | None,
        admit: Admit | None,
        track: Track | None,
        is_large: bool,
    ) -> StoredObject:
        meta = document["metadata"]
        object_meta.prepare_create(
            meta,
            uid=self._new_uid(),
            now=timestamps.to_text(self._clock()),
            generated_suffix=_random_suffix,
        )
        await aside.run(is_large, self._prepare_create, resource, document, user, track)
        await aside.run(is_large, self._check_create, resource, document)
        if admit is not None:
            await admit(document, None)
        name = meta["name"]
        key = self.key(resource, namespace, name)
        holder = self._holder(resource, key)
        if holder is None:
            return await self._put_new(resource, key, document, options, guard, NO_CHANGE)
        try:
            while True:
                filled = copy.deepcopy(document)
                change = await holder.fill(filled, None, is_dry_run=options.dry_run)
                try:
                    return await self._put_new(resource, key, filled, options, guard, change)
                except KeyExists as error:
                    if not await holder.has_lost(error.key):
                        raise
        except Refused as refused:
            raise self._invalid(resource, name, [refused.error]) from None

    def _prepare_create(
        self, resource: ServedResource, document: Document, user: UserInfo | None, track: Track | None
    ) -> None:
        """Make a new document what will be stored."""
        strategy, meta = resource.strategy, document["metadata"]
        if strategy.has_generation:
            meta["generation"] = 1
        strategy.prepare_create(document)
        if strategy.stamp_create is not None:
            strategy.stamp_create(Stamp(user, timestamps.to_text(self._clock())), document)
        if track is not None:
            track(document, None, None)

    def _check_create(self, resource: ServedResource, document: Document) -> None:
        """Raises Invalid, and TakesLong."""
        strategy, meta = resource.strategy, document["metadata"]
        errors = _of_metadata(meta, resource)
        errors += strategy.validate_create(document) + strategy.validate(document)
        if errors:
            raise self._invalid(resource, meta.get("name", ""), errors)

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
        value = await self._value(resource, document)
        if options.dry_run:
            if await self.cache.get(key) is not None:
                raise AlreadyExists(resource.group_resource, name)
            return StoredObject(key, resource.stored_head, value[len(resource.stored_head) :])
        try:
            revision = await self._with_lease(
                resource, lambda lease: self._create_guarded(key, value, lease, guards, change)
            )
        except KeyExists as error:
            if error.key != key:
                raise
            existing = await self.cache.get(key)
            raise AlreadyExists(
                resource.group_resource, name, is_terminating=_is_terminating(existing)
            ) from None
        return _stored(resource, key, value, revision)

    async def _create_guarded(
        self, key: str, value: bytes, lease: int, guards: Sequence[Guard], change: Change
    ) -> int:
        if not guards and not change.writes:
            return await self._store.create(key, value, lease=lease)
        held = [guard.condition for guard in guards]
        while True:
            conditions = (*held, Condition(key, 0), *change.conditions)
            try:
                return await self._store.transact(conditions, (Put(key, value, lease), *change.writes))
            except RevisionMismatch:
                if not guards:
                    raise
                held = [await guard.renew() for guard in guards]

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
        user: who writes; None for the server itself.
        warnings: takes what the client should know of the object that was stored.
        mutate, admit: asked before and after the resource's own rules, at each attempt; the first may change
            the new document.
        track: asked at each attempt when the object is as it will be stored; without it owners stay.
        is_large: others need not wait while `transform` runs and its document is checked; as they need not
            where the stored object is large.
        An unchanged object is not written and keeps its version. One that is being deleted and has lost
        its last finalizer is removed.
        Raises NotFound, Conflict, Invalid, what `transform`, `mutate` and `admit` raise, and the storage's
        errors.
        """
        told: Warnings = []
        updated = await self._update(
            *(resource, namespace, name, transform, options, strategy, checks_uid, user, told, mutate, admit),
            *(track, is_large),
        )
        if warnings is not None:
            warnings += told
        return await self._shown(resource, updated)

    async def _update(
        self,
        resource: ServedResource,
        namespace: str,
        name: str,
        transform: Transform,
        options: WriteOptions,
        strategy: UpdateStrategy | None,
        checks_uid: bool,
        user: UserInfo | None,
        told: Warnings,
        mutate: Admit | None,
        admit: Admit | None,
        track: Track | None,
        is_large: bool,
    ) -> StoredObject:
        """Returns the object as it is stored. told: takes the warnings of the last attempt."""
        key = self.key(resource, namespace, name)
        rules = strategy or resource.strategy.update
        holder, change = self._holder(resource, key), NO_CHANGE
        # A dry run has no write that would find out that the cached copy is an old one.
        current, is_fresh = None if options.dry_run else self.cache.peek(key), False
        unchanged_at = 0  # the revision of a copy that the write would leave as it is
        while True:
            if current is None:
                current, is_fresh = await self.cache.get(key), True
                if current is None:
                    raise NotFound(resource.group_resource, name)
            found = current.value
            assert found is not None
            if current.revision == unchanged_at:
                return found
            shown = found
            if resource.keeping is not None:
                shown = await self._shown(resource, found)
            old = shown.document()
            large = is_large or resource.strategy.takes_long or len(found.tail) > aside.LARGE_BYTES
            try:
                new = await aside.run(large, _transformed, resource, transform, shown)
                if mutate is not None:
                    await mutate(new, old)
                is_unchanged = await aside.run(
                    large, self._prepare_update, resource, rules, new, old, user, track, checks_uid=checks_uid
                )
                told[:] = await aside.run(
                    large, self._check_update, resource, rules, new, old, is_unchanged=is_unchanged
                )
                if admit is not None:
                    await admit(new, old)
                if holder is not None:
                    change = await holder.fill(new, old, is_dry_run=options.dry_run)
                    is_unchanged = False
            except Exception as error:
                if is_fresh and isinstance(error, Refused):
                    raise self._invalid(resource, name, [error.error]) from None
                if is_fresh:
                    raise
                current = None  # A stale copy may fail where the stored object passes.
                continue
            version = old["metadata"].pop("resourceVersion")
            new["metadata"].pop("resourceVersion", None)
            is_removal = "deletionTimestamp" in old["metadata"] and self._may_be_removed(resource, new)
            # What is shown otherwise than it is stored is written, as it would be stored today.
            is_current = resource.keeping is None or (
                found.head == resource.stored_head and (shown is found or shown.head != found.head)
            )
            if is_current and not is_removal and (is_unchanged or is_same(new, old)):
                if is_fresh:
                    return found
                # Only the stored object can tell that nothing changes.
                unchanged_at = current.revision
                current = None
                continue
            value = await self._value(resource, new)
            if options.dry_run:
                return _stored(resource, key, value, int(version))
            try:
                if is_removal:
                    await self._remove(resource, key, old, expected=current.revision)
                    return _stored(resource, key, value, int(version))
                revision = await self._put(resource, key, value, expected=current.revision, change=change)
                return _stored(resource, key, value, revision)
            except RevisionMismatch:
                current = None
            except KeyExists as error:
                assert holder is not None  # Nothing else of an update creates a key.
                try:
                    await holder.has_lost(error.key)
                except Refused as refused:
                    raise self._invalid(resource, name, [refused.error]) from None
                current = None

    def _prepare_update(
        self,
        resource: ServedResource,
        rules: UpdateStrategy,
        new: Document,
        old: Document,
        user: UserInfo | None,
        track: Track | None,
        *,
        checks_uid: bool,
    ) -> bool:
        """Make `new` what will be stored in place of `old`, or raise.

        Returns whether it is for sure what is stored already.
        """
        meta, old_meta = new["metadata"], old["metadata"]
        name = old_meta["name"]
        expected = meta.get("resourceVersion")
        if expected and expected != old_meta["resourceVersion"]:
            _require_revision(expected)
            raise Conflict(resource.group_resource, name)
        if not expected and not resource.strategy.is_updated_blindly:
            # Kubernetes names the resource where it names the kind otherwise.
            problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise Invalid(GroupKind(*resource.group_resource), name, [problem])
        if checks_uid and meta.get("uid") and meta["uid"] != old_meta["uid"]:
            raise Conflict(
                resource.group_resource,
                name,
                f"Precondition failed: UID in precondition: {meta['uid']}, "
                f"UID in object meta: {old_meta['uid']}",
            )
        if resource.is_namespaced:
            meta["namespace"] = meta.get("namespace") or old_meta["namespace"]
        else:
            meta.pop("namespace", None)
        said_of_owners = meta.get("managedFields")
        object_meta.prepare_update(meta, old_meta)
        rules.prepare(new, old)
        if rules.stamp is not None:
            rules.stamp(Stamp(user, timestamps.to_text(self._clock())), new, old)
        if track is not None:
            track(new, old, said_of_owners)
        elif "managedFields" in old_meta:
            meta["managedFields"] = old_meta["managedFields"]
        if resource.strategy.has_generation and _differs(new, old, resource.strategy.no_generation):
            meta["generation"] = min(old_meta.get("generation", 0) + 1, GENERATION_MAX)
        return is_same(new, old)

    def _check_update(
        self,
        resource: ServedResource,
        rules: UpdateStrategy,
        new: Document,
        old: Document,
        *,
        is_unchanged: bool,
    ) -> Warnings:
        """What the client should know of a change. Raises Invalid, and TakesLong."""
        if is_unchanged:
            # What is stored and stays as it is has been checked.
            return resource.strategy.warn(new, old)
        meta, old_meta = new["metadata"], old["metadata"]
        changes = object_meta.validate_update(meta, old_meta)
        itself = _of_metadata(meta, resource)
        errors = changes * rules.change_checks + itself * rules.object_checks
        errors += rules.validate(new, old)
        errors += resource.strategy.validate(new)
        if errors:
            raise self._invalid(resource, old_meta["name"], errors)
        return resource.strategy.warn(new, old)

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
        current, is_fresh = None if options.dry_run else self.cache.peek(key), False
        while True:
            if current is None:
                current, is_fresh = await self.cache.get(key), True
                if current is None:
                    raise NotFound(resource.group_resource, name)
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
        document = (found if resource.keeping is None else await self._shown(resource, found)).document()
        self._check_preconditions(resource, document, options)
        if admit is not None:
            await admit(None, document)
        uid = document["metadata"].get("uid", "")
        marked = self._marked(resource, document, options)
        is_removed = self._may_be_removed(resource, marked)
        if marked != document:
            value = await self._value(resource, marked)
            if not options.dry_run:
                revision = await self._store.compare_and_put(key, value, expected=revision)
            found = _stored(resource, key, value, revision)
            if is_removed and not options.dry_run:
                await self._remove_marked(resource, key, marked, revision, uid)
        elif options.dry_run:
            pass
        elif is_removed:
            await self._remove(resource, key, document, expected=revision)
        else:
            # Nothing changes, which only the stored object can tell.
            await self._store.transact((Condition(key, revision),), ())
        return Deleted(await self._shown(resource, found), is_removed, uid)

    async def _remove_marked(
        self, resource: ServedResource, key: str, document: Document, revision: int, uid: str
    ) -> None:
        """Remove an object that this deletion has marked and that has nothing to wait for."""
        while True:
            try:
                await self._remove(resource, key, document, expected=revision)
            except RevisionMismatch:
                current = await self.cache.get(key)
                if current is None or current.value is None:
                    return  # Somebody else removed it.
                document = current.value.document()
                if document["metadata"].get("uid") != uid or not self._may_be_removed(resource, document):
                    return
                revision = current.revision
            else:
                return

    def _marked(self, resource: ServedResource, document: Document, options: DeleteOptions) -> Document:
        """The object as this deletion leaves it, if it cannot go at once; else as it is."""
        strategy = resource.strategy
        marked = copy.deepcopy(document)
        meta = marked["metadata"]
        finalizers = object_meta.finalizers(document)
        if strategy.heeds_policy:
            finalizers = options.finalizers(document, orphans_by_default=strategy.orphans_dependents)
        if finalizers:
            meta["finalizers"] = finalizers
        else:
            meta.pop("finalizers", None)
        is_terminating = "deletionTimestamp" in meta
        now = self._clock()
        if strategy.grace_period_s is not None:
            self._shorten_or_begin_grace(marked, strategy.grace_period_s, options, now)
        elif not is_terminating and resource.strategy.blockers(marked):
            if strategy.mark_deleted is not None:
                strategy.mark_deleted(marked, timestamps.to_text(now))
            else:
                meta["deletionTimestamp"] = timestamps.to_text(now)
                meta["deletionGracePeriodSeconds"] = 0
        if "deletionTimestamp" in meta and not is_terminating and meta.get("generation"):
            meta["generation"] = min(meta["generation"] + 1, GENERATION_MAX)
        return marked

    def _shorten_or_begin_grace(
        self,
        document: Document,
        grace_period_s: Callable[[Document, int | None], int],
        options: DeleteOptions,
        now: float,
    ) -> None:
        """Set when the object is to go. Once it is set it may only come nearer."""
        meta = document["metadata"]
        grace_s = grace_period_s(document, options.grace_period_s)
        ends_at = timestamps.from_text(meta.get("deletionTimestamp", ""))
        if ends_at is not None:
            left_s = meta.get("deletionGracePeriodSeconds") or 0
            if options.grace_period_s is None or grace_s >= left_s:
                return
            now = ends_at - left_s
        grace_s = min(grace_s, GRACE_S_MAX)
        meta["deletionTimestamp"] = timestamps.to_text(now + grace_s)
        meta["deletionGracePeriodSeconds"] = grace_s

    def _check_preconditions(
        self, resource: ServedResource, document: Document, options: DeleteOptions
    ) -> None:
        meta = document["metadata"]
        for field, wanted in (("uid", options.uid), ("resourceVersion", options.resource_version)):
            if wanted is not None and wanted != meta.get(field):
                label = "UID" if field == "uid" else "ResourceVersion"
                raise Conflict(
                    resource.group_resource,
                    meta["name"],
                    f"Precondition failed: {label} in precondition: {wanted}, "
                    f"{label} in object meta: {meta.get(field)}",
                )

    # ---- inside

    def _may_be_removed(self, resource: ServedResource, document: Document) -> bool:
        return not resource.strategy.blockers(document) and _grace_s(document) == 0

    def _holder(self, resource: ServedResource, key: str) -> Holder | None:
        holding = resource.strategy.holding
        if holding is None:
            return None
        return Holder(self._store, holding, prefix=self._prefix, owner=key)

    async def _put(
        self, resource: ServedResource, key: str, value: bytes, *, expected: int, change: Change
    ) -> int:
        if change.writes:
            conditions = (Condition(key, expected), *change.conditions)
            return await self._store.transact(conditions, (Put(key, value), *change.writes))
        return await self._with_lease(
            resource,
            lambda lease: self._store.compare_and_put(key, value, expected=expected, lease=lease),
        )

    async def _remove(self, resource: ServedResource, key: str, document: Document, *, expected: int) -> None:
        """Delete the object, and with it what it holds. document: it, as it is stored now."""
        holder = self._holder(resource, key)
        released = holder.release(document) if holder is not None else ()
        if released:
            await self._store.transact((Condition(key, expected),), (Delete(key), *released))
        else:
            await self._store.compare_and_delete(key, expected=expected)

    async def _with_lease(self, resource: ServedResource, write: Callable[[int], Awaitable[int]]) -> int:
        """Do `write` with the lease that the resource's objects have, if any."""
        ttl_s = resource.strategy.ttl_s
        if not ttl_s:
            return await write(NO_LEASE)
        lease = await self._leases.lease_for(ttl_s)
        try:
            return await write(lease)
        except LeaseNotFound:
            # It was revoked, or ended while the machine slept.
            self._leases.forget(lease)
            return await write(await self._leases.lease_for(ttl_s))

    async def _shown(self, resource: ServedResource, found: StoredObject) -> StoredObject:
        """A stored object as clients of the resource see it."""
        view = resource.view_at_hand(found)
        return view if view is not None else (await resource.shown([found]))[0]

    async def _value(self, resource: ServedResource, document: Document) -> bytes:
        """What is stored for a document."""
        try:
            if resource.keeping is not None:
                document = await resource.keeping.to_stored(document)
            return encode(document, resource.stored_head)
        except TooDeep:
            raise BadRequest("the object is nested too deeply to be stored") from None

    def _invalid(self, resource: ServedResource, name: str, errors: Sequence[FieldError]) -> Invalid:
        return Invalid(resource.group_kind, name, errors[:ERRORS_MAX])

    # ---- chunks

    def _continued(self, keys: KeyRange, text: str) -> tuple[KeyRange, ReadAt]:
        """Where and when the chunk that a token asks for begins."""
        try:
            token = decode_token(text, self._brand.meta_version)
        except InvalidToken as error:
            raise BadRequest(f"invalid continue token: {error}") from None
        at = ReadAt.exactly(token.revision) if token.revision else MOST_RECENT
        return KeyRange(keys.start + token.start, keys.end), at

    def _token(self, revision: int, next_key: str, folder: str) -> str:
        return ContinueToken(revision, next_key.removeprefix(folder)).encode(self._brand.meta_version)

    def _expired(self, options: ListOptions, keys: KeyRange, folder: str) -> Expired:
        """Rows K31, K35: a token whose revision is gone comes back as one to go on without it."""
        if not options.continue_token:
            return Expired("The resourceVersion for the provided list is too old.")
        error = Expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a "
            "new list without it, or go on with the token in this answer; then objects that were created, "
            "changed or deleted since the first chunk may show up or be missing."
        )
        error.list_meta["continue"] = self._token(0, keys.start, folder)
        return error


def _of_metadata(meta: Document, resource: ServedResource) -> list[FieldError]:
    """What is wrong with metadata."""
    strategy = resource.strategy
    return object_meta.validate(
        meta,
        is_namespaced=resource.is_namespaced,
        name_rule=strategy.name_rule,
        takes_bare_finalizers=strategy.takes_bare_finalizers,
    )


def _transformed(resource: ServedResource, transform: Transform, found: StoredObject) -> Document:
    """What is to be stored in place of an object."""
    return resource.to_stored(transform(resource.view(found)))


def _require_revision(text: str) -> None:
    """Row J11: what is no version is no conflict, either."""
    try:
        parse_revision(text)
    except InvalidRevision as error:
        raise BadRequest(
            f"invalid resource version: metadata.resourceVersion: Invalid value: {quote(text)}: {error}"
        ) from None


async def _views(resource: ServedResource, objects: Sequence[StoredObject]) -> list[StoredObject]:
    """Objects in the resource's version, where they are kept in another; others get their turns meanwhile."""
    views = []
    for start in range(0, len(objects), CONVERTED_AT_ONCE):
        views += [resource.view(each) for each in objects[start : start + CONVERTED_AT_ONCE]]
        await asyncio.sleep(0)
    return views


def _random_suffix() -> str:
    return "".join(secrets.choice(names.GENERATED_ALPHABET) for _ in range(names.GENERATED_SUFFIX_LENGTH))


def _stored(resource: ServedResource, key: str, value: bytes, revision: int) -> StoredObject:
    return StoredObject(
        key, resource.stored_head, with_revision(value[len(resource.stored_head) :], revision)
    )


def _is_terminating(version: Found | None) -> bool:
    if version is None or version.value is None:
        return False
    return "deletionTimestamp" in version.value.document()["metadata"]


def _grace_s(document: Document) -> int:
    grace_s: int = document["metadata"].get("deletionGracePeriodSeconds") or 0
    return grace_s


def is_same(new: Document, old: Document) -> bool:
    """Would they be stored as the same?"""
    return _is_one(new, old)


def _sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _differs(new: Document, old: Document, besides: frozenset[str]) -> bool:
    return any(not _is_one(new.get(field), old.get(field)) for field in (new.keys() | old.keys()) - besides)


def _is_one(new: Any, old: Any) -> bool:
    """Are two values the same, in whatever order? Python takes 1, 1.0 and true for the same."""
    if new != old:
        return False
    return orjson.dumps(new) == orjson.dumps(old) or _sorted(new) == _sorted(old)
