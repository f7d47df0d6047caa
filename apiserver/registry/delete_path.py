"""Runs deletions: an object is removed at once, or marked first and removed when nothing holds it any more.

Source of the rules: k8s.io/apiserver, pkg/registry/generic/registry/store.go, Delete. Rows G01-G15.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from apiserver.load.offload import SERVER, Offload
from apiserver.load.size_class import size_class
from apiserver.meta.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from apiserver.meta.field_errors import invalid
from apiserver.meta.options import IGNORE_READ_ERROR, DeleteOptions
from apiserver.meta.vocabulary import Document, GroupKind
from apiserver.registry import deletion, version_codec
from apiserver.registry.object_keys import ObjectKeys
from apiserver.registry.results import DeletionResult
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import DamagedObject, StoredObject
from apiserver.registry.transactions import Transactions
from apiserver.registry.write_request import Admission
from apiserver.storage.errors import RevisionMismatch
from apiserver.storage.interface import Stored
from apiserver.storage.watch_cache import KeyVersion, WatchCache

log = logging.getLogger(__name__)

_DEFAULTS: Final = DeleteOptions()


class DeleteRequest(NamedTuple):
    """A deletion of one object, with everything it needs; built once for each object.

    admission: the plugins that apply; None if there are none.
    user: the name of the user who deletes; SERVER for the server itself.
    on_decided: called when only the store can still refuse it; again, if another writer was faster.
    """

    resource: ServedResource
    namespace: str
    name: str
    options: DeleteOptions = _DEFAULTS
    admission: Admission | None = None
    user: str = SERVER
    on_decided: Callable[[], None] | None = None


class _Marked(NamedTuple):
    """An object as a deletion leaves it. is_changed: whether it has been marked. is_removed: whether nothing
    holds it.
    """

    document: Document
    is_changed: bool
    is_removed: bool


class DeletePath:
    """Deletes objects of all served resources."""

    def __init__(
        self,
        cache: WatchCache[StoredObject],
        transactions: Transactions,
        keys: ObjectKeys,
        offload: Offload,
        clock: Callable[[], float],
    ) -> None:
        """clock: seconds since 1970."""
        self._cache = cache
        self._transactions = transactions
        self._keys = keys
        self._offload = offload
        self._clock = clock

    async def delete(self, request: DeleteRequest) -> DeletionResult:
        """Remove the object, or mark it and leave the rest to its finalizers or its grace period.

        Raises Forbidden, NotFound, Conflict (preconditions), and the errors of admission and of the storage.
        """
        resource = request.resource
        if why := resource.strategy.delete_refusal(request.name):
            raise Forbidden.to_resource(resource.group_resource, request.name, why)
        key = self._keys.of(resource, request.namespace, request.name)
        current, is_fresh = None if request.options.dry_run else self._cache.get_cached(key), False
        while True:
            if current is None:
                current, is_fresh = await self._cache.get(key), True
                if current is None:
                    raise NotFound(resource.group_resource, request.name)
            try:
                return await self._delete_once(request, key, current)
            except (RevisionMismatch, Conflict) as error:
                if is_fresh and isinstance(error, Conflict):
                    raise
                current = None

    async def delete_unreadable(self, request: DeleteRequest) -> Sequence[str]:
        """Remove an object that cannot be decoded, without its finalizers and preconditions (rows G12, G13).

        Admission gets an object of which only the name is known. Its allocations remain until the controllers
        that repair allocations find them unused.
        Returns warnings. Raises Forbidden, Invalid (the object is readable, or does not exist), and the
        errors of admission and of the storage.
        Source: k8s.io/apiserver, pkg/registry/generic/registry/corrupt_obj_deleter.go.
        """
        resource, name = request.resource, request.name
        if why := resource.strategy.delete_refusal(name):
            raise Forbidden.to_resource(resource.group_resource, name, why)
        key = self._keys.of(resource, request.namespace, name)
        while True:
            current = await self._cache.get(key)
            # Both: it may be possible by now to decrypt what was not when the cache read it.
            stored = await self._transactions.stored(key)
            found = current.value if current is not None else None
            if stored is not None and not _is_corrupt(current, stored):
                found = StoredObject.of(stored)
            if stored is None or not isinstance(found, DamagedObject):
                # The kind that is named is the resource, as in kube-apiserver.
                kind = GroupKind(resource.group_resource.group, resource.group_resource.resource)
                why = "is exclusively used to delete corrupt object(s), try again by removing this option"
                raise Invalid(kind, name, [invalid(IGNORE_READ_ERROR, True, why)])
            if found.is_temporary:
                raise found.error  # It is not corrupt: it can be read when the plugin responds again.
            warnings: Sequence[str] = ()
            if request.admission is not None:
                warnings = await admitted(request.admission, _named(resource, request.namespace, name))
            try:
                await self._transactions.remove_unread(key, expected=stored.mod_revision)
            except RevisionMismatch:
                continue
            log.warning("deleted the unreadable object %s for %s", key, request.user)
            return warnings

    async def _delete_once(
        self, request: DeleteRequest, key: str, current: KeyVersion[StoredObject]
    ) -> DeletionResult:
        resource, options = request.resource, request.options
        found, revision = current.value, current.revision
        assert found is not None
        hub, offload = await resource.codec.hub(found), self._offload.for_user(request.user)
        size = size_class(len(hub.tail))
        document = await offload.run_begun(size, hub.document)
        deletion.check_preconditions(resource, document, options)
        warnings = await admitted(request.admission, document) if request.admission is not None else ()
        uid = document["metadata"].get("uid", "")
        marked, is_changed, is_removed = await offload.run_begun(
            size, _marked, resource, document, options, self._clock()
        )
        value = await resource.codec.encode(marked) if is_changed else b""
        if request.on_decided is not None:
            request.on_decided()
        if resource.strategy.allocator is None:
            # The documents are not needed any more, and freeing a large one takes milliseconds, which must
            # not happen when all deletions of a collection have been committed together.
            document = marked = {}
        if is_changed:
            if not options.dry_run:
                revision = await self._transactions.mark(resource, key, value, expected=revision)
            found = StoredObject.written(key, resource.codec.stored_head, value, revision)
            if is_removed and not options.dry_run:
                await self._remove_marked(resource, key, uid, marked, revision)
        elif options.dry_run:
            pass
        elif is_removed:
            await self._transactions.remove(resource, key, document, expected=revision)
        else:
            # Nothing changes, which has to be verified on the stored object.
            await self._transactions.require(key, expected=revision)
        return DeletionResult(
            await version_codec.view(resource.codec, found, offload), is_removed, uid, warnings
        )

    async def _remove_marked(
        self, resource: ServedResource, key: str, uid: str, document: Document, revision: int
    ) -> None:
        """Remove an object that this deletion has marked and that nothing holds.

        uid: its own. document: as for `Transactions.remove`.
        """
        while True:
            try:
                await self._transactions.remove(resource, key, document, expected=revision)
            except RevisionMismatch:
                current = await self._cache.get(key)
                if current is None or current.value is None:
                    return  # Another client removed it.
                document = current.value.document()
                if document["metadata"].get("uid", "") != uid or not deletion.may_be_removed(
                    resource, document
                ):
                    return
                revision = current.revision
            else:
                return


def _is_corrupt(current: KeyVersion[StoredObject] | None, stored: Stored) -> bool:
    """Whether the stored value is known to be damaged, so that decrypting it now would not help."""
    if current is None or current.revision != stored.mod_revision:
        return False
    return isinstance(current.value, DamagedObject) and current.value.is_decrypted


def _named(resource: ServedResource, namespace: str, name: str) -> Document:
    """Returns a placeholder with all that is known of an object that cannot be read."""
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    kind = {"apiVersion": str(resource.group_version), "kind": resource.kind}
    return {**kind, "metadata": metadata}


async def admitted(admission: Admission, document: Document) -> Sequence[str]:
    """Run admission of a deletion, both steps; returns its warnings and raises its errors."""
    warnings = await admission.mutate(None, document)
    try:
        return [*warnings, *await admission.validate(None, document)]
    except ApiError as refused:
        refused.add_warnings(warnings)
        raise


def _marked(resource: ServedResource, document: Document, options: DeleteOptions, now: float) -> _Marked:
    """Returns an object as a deletion leaves it, without changing `document`. now: seconds since 1970."""
    if resource.strategy.mark_deleted is None:
        # Only metadata changes, and nothing in there but by being replaced.
        copied = {**document, "metadata": {**document["metadata"]}}
    else:
        copied = copy.deepcopy(document)
    marked = deletion.mark(resource, copied, options, now)
    return _Marked(marked, marked != document, deletion.may_be_removed(resource, marked))
