"""The way of every deletion: at once, or marked first and removed when nothing holds the object any more.

Source of the rules: k8s.io/apiserver, pkg/registry/generic/registry/store.go, Delete. Rows G01-G15.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from apiserver.errors import ApiError, Conflict, Forbidden, NotFound
from apiserver.meta.options import DeleteOptions
from apiserver.registry import deletion, version_codec
from apiserver.registry.object_keys import ObjectKeys
from apiserver.registry.offload import SERVER, Offload
from apiserver.registry.results import Deleted
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.size_class import size_class
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.transactions import Transactions
from apiserver.registry.write_path import encoded
from apiserver.registry.write_request import Admission
from apiserver.vocabulary import Document
from storage.errors import RevisionMismatch
from storage.watch_cache import KeyVersion, WatchCache

_DEFAULTS: Final = DeleteOptions()


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """Everything about a deletion of one object. Built once for each object.

    admission: the plugins that have a say; None if there are none.
    user: the name of who deletes; SERVER for the server itself.
    """

    resource: ServedResource
    namespace: str
    name: str
    options: DeleteOptions = _DEFAULTS
    admission: Admission | None = None
    user: str = SERVER


class _Marked(NamedTuple):
    """An object as a deletion leaves it. is_changed: it has been marked. is_removed: nothing holds it."""

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

    async def delete(self, request: DeleteRequest) -> Deleted:
        """Remove the object, or mark it and leave the rest to its finalizers or its grace period.

        Raises Forbidden, NotFound, Conflict (preconditions), what admission raises, and the storage's errors.
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

    async def _delete_once(
        self, request: DeleteRequest, key: str, current: KeyVersion[StoredObject]
    ) -> Deleted:
        resource, options = request.resource, request.options
        found, revision = current.value, current.revision
        assert found is not None
        hub, offload = await resource.codec.hub(found), self._offload.for_user(request.user)
        size = size_class(len(hub.tail))
        document = await offload.run_begun(size, hub.document)
        deletion.check_preconditions(resource, document, options)
        warnings = await _admitted(request.admission, document) if request.admission is not None else ()
        uid = document["metadata"].get("uid", "")
        marked, is_changed, is_removed = await offload.run_begun(
            size, _marked, resource, document, options, self._clock()
        )
        value = await encoded(resource, marked) if is_changed else b""
        if resource.strategy.allocator is None:
            # Nobody asks any more what is in them, and to free a large one takes milliseconds: it must not be
            # when all deletions of a collection have been committed together.
            document = marked = {}
        if is_changed:
            if not options.dry_run:
                revision = await self._transactions.mark(key, value, expected=revision)
            found = StoredObject.written(key, resource.codec.stored_head, value, revision)
            if is_removed and not options.dry_run:
                await self._remove_marked(resource, key, uid, marked, revision)
        elif options.dry_run:
            pass
        elif is_removed:
            await self._transactions.remove(resource, key, document, expected=revision)
        else:
            # Nothing changes, which only the stored object can tell.
            await self._transactions.require(key, expected=revision)
        return Deleted(await version_codec.view(resource.codec, found), is_removed, uid, warnings)

    async def _remove_marked(
        self, resource: ServedResource, key: str, uid: str, document: Document, revision: int
    ) -> None:
        """Remove an object that this deletion has marked and that has nothing to wait for.

        uid: its own. document: as for `Transactions.remove`.
        """
        while True:
            try:
                await self._transactions.remove(resource, key, document, expected=revision)
            except RevisionMismatch:
                current = await self._cache.get(key)
                if current is None or current.value is None:
                    return  # Somebody else removed it.
                document = current.value.document()
                if document["metadata"].get("uid", "") != uid or not deletion.may_be_removed(
                    resource, document
                ):
                    return
                revision = current.revision
            else:
                return


async def _admitted(admission: Admission, document: Document) -> Sequence[str]:
    """Ask admission about a deletion, in both steps. Returns warnings, and raises what it raises."""
    warnings = await admission.mutate(None, document)
    try:
        return [*warnings, *await admission.validate(None, document)]
    except ApiError as refused:
        refused.add_warnings(warnings)
        raise


def _marked(resource: ServedResource, document: Document, options: DeleteOptions, now: float) -> _Marked:
    """Returns an object as a deletion leaves it; `document` stays as it is. now: seconds since 1970."""
    if resource.strategy.mark_deleted is None:
        # Only metadata changes, and nothing in there but by being replaced.
        copied = {**document, "metadata": {**document["metadata"]}}
    else:
        copied = copy.deepcopy(document)
    marked = deletion.mark(resource, copied, options, now)
    return _Marked(marked, marked != document, deletion.may_be_removed(resource, marked))
