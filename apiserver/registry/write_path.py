"""Runs creates and updates, by clients, subresources and controllers alike.

    propose ─► own ─► mutate ─► prepare ─► check ─► validate ─► admit ─► allocate ─► encode ─► commit

Only the first stage differs: a create has its object, an update (PUT, patch, apply, scale, a controller's) a
function that makes it from the current object. `write_stages` records the owners of the sent fields, before
anything else changes them; admission plugins mutate; `write_stages` prepares and validates, and plugins check
what depends on the caller or on other objects; plugins admit; allocators choose unique values; the resource's
codec encodes; `transactions` commits, if the object is still the one that the stages have seen. Otherwise an
update begins again on the newer object.

Each stage returns its warnings; a refusal carries those of the stages before it (`ApiError.warnings`).
"""

from __future__ import annotations

import copy
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import Final, NamedTuple
from weakref import WeakSet

import orjson

from apiserver.load.offload import Offload
from apiserver.load.size_class import LARGE_BYTES, SizeClass, size_class, size_class_of_document
from apiserver.meta import names, object_meta, timestamps
from apiserver.meta.errors import AlreadyExists, ApiError, BadRequest, Conflict, Invalid, NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry import deletion, version_codec, write_stages
from apiserver.registry.allocations import NO_EXTRA_WRITES, AllocationRefused, ExtraWrites, ObjectAllocations
from apiserver.registry.field_manager_conversions import run_converting
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.invalidating_changes import InvalidField, causes
from apiserver.registry.object_keys import ObjectKeys
from apiserver.registry.results import WriteResult
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.transactions import Transactions
from apiserver.registry.write_request import (
    ManageFields,
    ProposedObject,
    Resumption,
    Transform,
    WriteRequest,
)
from apiserver.storage.errors import KeyExists, RevisionMismatch
from apiserver.storage.watch_cache import KeyVersion, WatchCache

# How often a name is generated anew because the one before was taken. kube-apiserver: 8.
NAME_ATTEMPTS_MAX: Final = 8
# Asking the system for randomness lets go of the interpreter's lock, which a busy writer then holds: 10 us
# for each object. So it is asked for many at a time.
_SPLIT: Final = Struct("16s" * 256)
_VERSION_4: Final = 0x4 << 76
_VARIANT: Final = 0x2 << 62
_RANDOM_BITS: Final = ~(0xF << 76 | 0x3 << 62)


# The errors that refuse an object for its contents.
_OF_VALIDATION: Final = (Invalid, BadRequest, Conflict, write_stages.MutatedVersion)

# Whether the value at a key would be stored in another form now, as with another encryption key: then it is
# written though it does not change.
IsStale = Callable[[str], Awaitable[bool]]


class UpdateAttempt(NamedTuple):
    """One attempt at an update, up to its commit.

    old, new: of the hub version. is_noop: whether there is nothing to write.
    """

    old: Document
    new: Document
    warnings: Sequence[str]
    extra: ExtraWrites
    is_noop: bool
    is_removal: bool


class WritePath:
    """Creates and updates objects of all served resources."""

    def __init__(
        self,
        cache: WatchCache[StoredObject],
        transactions: Transactions,
        keys: ObjectKeys,
        offload: Offload,
        clock: Callable[[], float],
        is_stale: IsStale | None,
        field_managers: FieldManagers | None,
    ) -> None:
        """clock: seconds since 1970. is_stale: None if values are not encrypted.

        field_managers: records the owners of fields that the server itself writes; if None, they have no
            owners.
        """
        self._field_managers = field_managers
        self._is_stale = is_stale
        self._cache = cache
        self._transactions = transactions
        self._keys = keys
        self._offload = offload
        self._clock = clock
        self._new_uid = UidSource()

    def _manage_fields(self, request: WriteRequest) -> ManageFields | None:
        """Returns the function that updates the owners of fields; None if they do not change."""
        if request.writer is None or self._field_managers is None:
            return request.manage_fields
        return self._field_managers.of_server(request.resource, request.writer)

    # ---- create

    async def create(self, request: WriteRequest, proposed: ProposedObject) -> WriteResult:
        """Store a new object.

        Raises Invalid, AlreadyExists, and the errors of the guard, of admission and of the storage.
        """
        codec, document = request.resource.codec, proposed.document
        size, offload = _size(request), request.offload or self._offload
        if codec.converts_hub:
            document = await offload.run_begun(size, codec.to_hub, document)
        admission_warnings: Sequence[str] = ()
        try:
            place = partial(write_stages.place, request, proposed, document, self._manage_fields(request))
            if size is SizeClass.SMALL and not codec.has_converter:
                place()
            else:
                await run_converting(offload, size, place)
            owners, resumption = document["metadata"].get("managedFields"), None
            while True:
                try:
                    if request.admission is not None:
                        mutated = await self._mutated(request, document, None, size, owners, resumption)
                        admission_warnings, size = mutated
                    meta = document["metadata"]
                    is_named = meta.get("name") or not meta.get("generateName")
                    create = self._create_once if is_named else self._create_named
                    created = await create(request, document, size)
                    break
                except ApiError as refused:
                    resumption = await self._resumption(request, document, None, refused)
                    if resumption is None:
                        raise
        except ApiError as refused:
            refused.add_warnings([*proposed.warnings, *admission_warnings])
            raise
        return WriteResult(created.found, [*proposed.warnings, *admission_warnings, *created.warnings])

    async def _create_named(self, request: WriteRequest, document: Document, size: SizeClass) -> WriteResult:
        """Create an object under generated names, until one of them is free.

        size: that of the document after admission.
        """
        for attempt in range(1, NAME_ATTEMPTS_MAX + 1):
            document["metadata"]["name"] = ""
            try:
                return await self._create_once(request, document, size)
            except AlreadyExists:
                if attempt == NAME_ATTEMPTS_MAX:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _create_once(self, request: WriteRequest, document: Document, size: SizeClass) -> WriteResult:
        resource, uid, now = request.resource, self._new_uid(), timestamps.to_text(self._clock())
        meta, offload = document["metadata"], request.offload or self._offload
        object_meta.prepare_create(meta, uid=uid, now=now, generated_suffix=_random_suffix)
        prepare = partial(write_stages.prepare_create, request, document, now)
        is_small = size is SizeClass.SMALL
        warnings = [*(prepare() if is_small else await offload.run_begun(size, prepare))]
        admission = request.admission
        try:
            errors = await admission.check(document, None) if admission is not None else ()
            findings = await offload.run_bounded(
                size, partial(write_stages.validate_create, request, document)
            )
            warnings += write_stages.accepted(resource, meta.get("name", ""), errors, findings)
            if admission is not None:
                warnings += await admission.validate(document, None)
            key = self._keys.of(resource, request.namespace, meta["name"])
            if resource.strategy.allocator is None:
                found = await self._put_new(request, key, document, NO_EXTRA_WRITES)
            else:
                found = await self._allocate_and_put(request, key, document, size)
        except ApiError as refused:
            refused.add_warnings(warnings)
            raise
        return WriteResult(await version_codec.view(resource.codec, found, offload), warnings)

    async def _allocate_and_put(
        self, request: WriteRequest, key: str, document: Document, size: SizeClass
    ) -> StoredObject:
        name, offload = document["metadata"]["name"], request.offload or self._offload
        allocations = self._transactions.allocations(request.resource, key)
        assert allocations is not None
        try:
            while True:
                filled = await offload.run_begun(size, copy.deepcopy, document)
                extra = await allocations.allocate(filled, None, is_dry_run=request.options.dry_run)
                try:
                    found = await self._put_new(request, key, filled, extra)
                except KeyExists as error:
                    if not await allocations.may_retry(error.key):
                        raise
                else:
                    if not request.options.dry_run:
                        allocations.stored()
                    return found
        except AllocationRefused as refused:
            raise write_stages.refusal(request.resource, name, [refused.error]) from None

    async def _put_new(
        self, request: WriteRequest, key: str, document: Document, extra: ExtraWrites
    ) -> StoredObject:
        """Store a new object."""
        resource, name = request.resource, document["metadata"]["name"]
        value, guard = await resource.codec.encode_new(document)
        guards = [*filter(None, (request.guard, guard))]
        if request.options.dry_run:
            if await self._cache.get(key) is not None:
                raise AlreadyExists(resource.group_resource, name)
            return StoredObject.written(key, resource.codec.stored_head, value, None)
        try:
            revision = await self._transactions.create(resource, key, value, guards, extra)
        except KeyExists as error:
            if error.key != key:
                raise
            existing = await self._cache.get(key)
            raise AlreadyExists(
                resource.group_resource, name, is_terminating=_is_terminating(existing)
            ) from None
        return StoredObject.written(key, resource.codec.stored_head, value, revision)

    async def _mutated(
        self,
        request: WriteRequest,
        new: Document,
        old: Document | None,
        size: SizeClass,
        owners: Sequence[Document] | None,
        resumption: Resumption | None,
    ) -> tuple[Sequence[str], SizeClass]:
        """Let admission mutate a document. Raises its errors, and BadRequest.

        size: that of the larger document, before. owners: the managedFields before. resumption: see
        `_resumption`.
        Returns warnings, and the size afterwards: a small document may have become thousands of times as
        large.
        """
        admission = request.admission
        assert admission is not None
        warnings = await admission.mutate(new, old, resumption)
        if admission.has_mutated or resumption is not None:
            write_stages.check_mutated(request, new, old)
            if size is not SizeClass.HUGE:
                size = max(size, size_class_of_document(new))
        if new["metadata"].get("managedFields") is owners:
            return warnings, size
        offload = request.offload or self._offload
        found = await offload.run_begun(size, write_stages.check_owners, new, owners)
        return [*warnings, *found] if found else warnings, size

    async def _resumption(
        self, request: WriteRequest, new: Document, old: Document | None, refused: ApiError
    ) -> Resumption | None:
        """Returns how admission goes on without the functions that have made an object invalid.

        The object is then as it was before them. None if it was refused for another reason: to raise the
        error here would keep it until the next garbage collection. Raises the error of a function whose
        failure fails the write.
        """
        admission = request.admission
        if admission is None or not admission.changes or not isinstance(refused, _OF_VALIDATION):
            return None
        offload, now = request.offload or self._offload, timestamps.to_text(self._clock())
        changes = admission.changes

        def find(is_bounded: bool) -> Mapping[int, Sequence[InvalidField]]:
            refusal_of = partial(write_stages.refusal_of, request, old, now, is_bounded)
            return causes(changes, refused, refusal_of)

        # On the event loop if it means three validations at most of a small object, whose rules are bounded.
        is_small = len(changes) == 1 and len(changes[0].before) + len(changes[0].after) <= LARGE_BYTES
        found = await offload.run_bounded(SizeClass.SMALL if is_small else SizeClass.HUGE, find)
        if not found:
            return None
        try:
            resumption = admission.resumption(found)
        except ApiError as failed:
            failed.add_warnings(refused.warnings)
            raise
        encoded = changes[0].before
        before = await offload.run_begun(size_class(len(encoded)), orjson.loads, encoded)
        new.clear()
        new.update(before)
        return resumption

    # ---- update

    async def update(self, request: WriteRequest, transform: Transform) -> WriteResult:
        """Replace the object with the result of `transform`, retrying until no other writer interferes.

        An unchanged object is not written and keeps its version. An object that is being deleted and has lost
        its last finalizer is removed.
        Raises NotFound, Conflict, Invalid, and the errors of `transform`, of admission and of the storage.
        """
        resource = request.resource
        offload, allocations = request.offload or self._offload, None
        manage_fields = self._manage_fields(request)
        key = self._keys.of(resource, request.namespace, request.name)
        if resource.strategy.allocator is not None:
            allocations = self._transactions.allocations(resource, key)
        # A dry run has no write that would find out that the cached copy is an old one.
        current, is_fresh = None if request.options.dry_run else self._cache.get_cached(key), False
        # The revision of a copy that the write would leave as it is, and the warnings of that attempt.
        noop_at = 0
        warnings: Sequence[str] = ()
        while True:
            if current is None:
                current, is_fresh = await self._read(request, key), True
            stored = current.value
            assert stored is not None
            if current.revision == noop_at:
                return WriteResult(
                    await version_codec.view(resource.codec, stored, offload), warnings, is_noop=True
                )
            # To fail here says nothing of the copy's age, and a conversion may have taken long.
            hub = await resource.codec.hub(stored)
            try:
                propose = partial(_proposed_change, request, transform, hub, manage_fields)
                attempt = await self._attempt(request, propose, stored, hub, allocations)
            except Exception:
                if is_fresh:
                    raise
                current = None  # A stale copy may fail where the stored object passes.
                continue
            if attempt.is_noop and self._is_stale is not None and not request.options.dry_run:
                attempt = attempt._replace(is_noop=not await self._is_stale(key))
            if attempt.is_noop:
                if is_fresh:
                    found = await version_codec.view(resource.codec, stored, offload)
                    return WriteResult(found, attempt.warnings, is_noop=True)
                # Only the stored object can show that nothing changes.
                noop_at, warnings = current.revision, attempt.warnings
                current = None
                continue
            try:
                written = await self._commit(request, key, current.revision, attempt, allocations)
            except ApiError as refused:
                refused.add_warnings(attempt.warnings)
                raise
            if written is not None:
                return WriteResult(
                    await version_codec.view(resource.codec, written, offload), attempt.warnings
                )
            current = None

    async def _read(self, request: WriteRequest, key: str) -> KeyVersion[StoredObject]:
        """Returns the current object."""
        current = await self._cache.get(key)
        if current is None:
            raise NotFound(request.resource.group_resource, request.name)
        return current

    async def _attempt(
        self,
        request: WriteRequest,
        propose: Callable[[], tuple[Document, ProposedObject]],
        stored: StoredObject,
        hub: StoredObject,
        allocations: ObjectAllocations | None,
    ) -> UpdateAttempt:
        """Run all stages before the commit.

        propose: calls `_proposed_change`. hub: the stored object in the hub version.
        """
        resource, admission, offload = request.resource, request.admission, request.offload or self._offload
        size, size_bytes = _size(request), len(hub.tail)
        if size_bytes > LARGE_BYTES:
            size = max(size, size_class(size_bytes))
        if size is SizeClass.SMALL and not resource.codec.has_converter:
            old, proposed = propose()
        else:
            old, proposed = await run_converting(offload, size, propose)
        new, extra, resumption = proposed.document, NO_EXTRA_WRITES, None
        owners = new["metadata"].get("managedFields")
        while True:
            warnings = [*proposed.warnings]
            try:
                if admission is not None:
                    told, size = await self._mutated(request, new, old, size, owners, resumption)
                    warnings += told
                now = timestamps.to_text(self._clock())
                prepare = partial(write_stages.prepare_update, request, new, old, now)
                is_small = size is SizeClass.SMALL
                is_unchanged = prepare() if is_small else await offload.run_begun(size, prepare)
                errors = await admission.check(new, old) if admission is not None else ()
                findings = await offload.run_bounded(
                    size, partial(write_stages.validate_update, request, new, old, now, is_unchanged)
                )
                warnings += write_stages.accepted(resource, request.name, errors, findings)
                if admission is not None:
                    warnings += await admission.validate(new, old)
                if allocations is not None:
                    extra = await _allocate(allocations, request, new, old)
                break
            except ApiError as refused:
                refused.add_warnings(warnings)
                resumption = await self._resumption(request, new, old, refused)
                if resumption is None:
                    raise
        if allocations is not None:
            # What was unchanged when it was validated may have been allocated something since.
            is_unchanged = await offload.run_begun(size, write_stages.is_same, new, old)
        is_removal = "deletionTimestamp" in old["metadata"] and deletion.may_be_removed(resource, new)
        is_noop = (
            is_unchanged
            and not is_removal
            and self._transactions.is_up_to_date(resource, stored)
            and resource.codec.is_up_to_date(stored, hub)
        )
        return UpdateAttempt(old, new, warnings, extra, is_noop, is_removal)

    async def _commit(
        self,
        request: WriteRequest,
        key: str,
        expected: int,
        attempt: UpdateAttempt,
        allocations: ObjectAllocations | None,
    ) -> StoredObject | None:
        """Write the result of an attempt; returns None if the object is not at revision `expected` any more.

        Also returns None if another object took an allocation, and another value may be tried.
        """
        resource, new = request.resource, attempt.new
        version = int(new["metadata"].pop("resourceVersion"))
        value = await resource.codec.encode(new)
        head = resource.codec.stored_head
        if request.options.dry_run:
            return StoredObject.written(key, head, value, version)
        try:
            if attempt.is_removal:
                await self._transactions.remove(resource, key, attempt.old, expected=expected)
                return StoredObject.written(key, head, value, version)
            revision = await self._transactions.replace(
                resource, key, value, expected=expected, extra=attempt.extra
            )
            if allocations is not None:
                allocations.stored()
            return StoredObject.written(key, head, value, revision)
        except RevisionMismatch:
            return None
        except KeyExists as error:
            assert allocations is not None  # Nothing else of an update creates a key.
            try:
                await allocations.may_retry(error.key)
            except AllocationRefused as refused:
                raise write_stages.refusal(resource, request.name, [refused.error]) from None
            return None


def _size(request: WriteRequest) -> SizeClass:
    return max(SizeClass.LARGE, request.size) if request.resource.strategy.is_costly else request.size


def _proposed_change(
    request: WriteRequest, transform: Transform, hub: StoredObject, manage_fields: ManageFields | None
) -> tuple[Document, ProposedObject]:
    """Returns an object and its replacement, with its owners, both in the hub version."""
    codec, old = request.resource.codec, hub.document()
    proposed = transform(codec.view_of_hub(hub))
    if codec.converts_hub:
        proposed = proposed._replace(document=codec.to_hub(proposed.document))
    try:
        write_stages.own(proposed, proposed.document, old, manage_fields)
    except ApiError as refused:
        refused.add_warnings(proposed.warnings)
        raise
    return old, proposed


async def _allocate(
    allocations: ObjectAllocations, request: WriteRequest, new: Document, old: Document
) -> ExtraWrites:
    """Returns the writes that an update of an object adds to its transaction. Raises Invalid."""
    try:
        return await allocations.allocate(new, old, is_dry_run=request.options.dry_run)
    except AllocationRefused as refused:
        raise write_stages.refusal(request.resource, request.name, [refused.error]) from None


def _random_suffix() -> str:
    return "".join(secrets.choice(names.GENERATED_ALPHABET) for _ in range(names.GENERATED_SUFFIX_LENGTH))


def _is_terminating(version: KeyVersion[StoredObject] | None) -> bool:
    """Returns whether an object is being deleted."""
    if version is None or version.value is None:
        return False
    version.value.require_sound()
    return version.value.is_terminating()


# ---- UIDs of new objects


class UidSource:
    """Makes random UUIDs (RFC 9562, version 4)."""

    def __init__(self) -> None:
        self._unused: list[bytes] = []
        _SOURCES.add(self)

    def forget_unused(self) -> None:
        """Drops the remaining random bytes, so that the next UID is made from new ones."""
        self._unused.clear()

    def __call__(self) -> str:
        if not self._unused:
            self._unused += _SPLIT.unpack(os.urandom(_SPLIT.size))
        number = int.from_bytes(self._unused.pop()) & _RANDOM_BITS | _VERSION_4 | _VARIANT
        text = f"{number:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# A function registered for forks is never removed: it is registered once for all sources, so that unused
# sources can be freed.
_SOURCES: Final[WeakSet[UidSource]] = WeakSet()


def _forget_unused() -> None:
    """Drop the remaining random bytes in a forked process, as two processes must not use the same bytes."""
    for source in list(_SOURCES):
        source.forget_unused()


os.register_at_fork(after_in_child=_forget_unused)
