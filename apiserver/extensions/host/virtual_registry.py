"""Reads and writes the objects of virtual resources, by the functions of extensions.

Handlers use it in place of `Registry`. Writes pass the same stages as those of stored objects, up to the
place where these are stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from apiserver.extensions.event_streams import EVENT_TYPES
from apiserver.extensions.hooks import SHOWS_DRY_RUN, Kind
from apiserver.extensions.host.event_stream import STREAMS_MAX
from apiserver.extensions.host.hooks import ExtensionHook
from apiserver.extensions.host.runner import EventSource, HookFailed
from apiserver.extensions.host.virtual_objects import (
    InvalidObject,
    ObjectForm,
    RequestRefused,
    refusal,
)
from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass, size_class_of_document
from apiserver.meta.errors import BadRequest, Conflict, InternalError, NotFound, Timeout, TooManyRequests
from apiserver.meta.options import ListOptions
from apiserver.meta.vocabulary import Document
from apiserver.registry import deletion
from apiserver.registry.allocations import ExtraWrites, ObjectAllocations
from apiserver.registry.delete_path import DeleteRequest, admitted
from apiserver.registry.results import NO_REVISION, DeletionResult, ObjectList, WriteResult
from apiserver.registry.selection import Selection
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_path import UpdateAttempt, WritePath
from apiserver.registry.write_request import ProposedObject, Transform, WriteRequest
from apiserver.storage.interface import MOST_RECENT, ReadAt
from apiserver.storage.watch_cache import EventType, KeyVersion

_T = TypeVar("_T")

# Objects of functions have no revision. Within a write, all have this one.
_REVISION: Final = 1
_WARNINGS_MAX: Final = 100
# How many objects a function may add to a watch with selectors beside those of the list: the server remembers
# which ones the client has.
ADDED_MAX: Final = 100_000


class Caller(NamedTuple):
    """The request for which functions are called.

    description: as in `extensions.invocation.Request`, as far as all functions get the same.
    meta_group: the group of options, which depends on the brand.
    deadline: when the client gives up, by the loop's clock; None: when the server does.
    without_slot: releases the slot of the request while it waits for a function.
    warnings: gets the warnings for the client.
    """

    description: Mapping[str, Any]
    meta_group: str
    deadline: float | None
    without_slot: Callable[[], AbstractContextManager[None]]
    offload: Offload
    warnings: list[str]

    def remaining_s(self) -> float | None:
        """Returns how long the client still waits. Raises Timeout if that time is over."""
        if self.deadline is None:
            return None
        remaining_s = self.deadline - asyncio.get_running_loop().time()
        if remaining_s <= 0:
            raise Timeout.of_request()
        return remaining_s


class Selectors(NamedTuple):
    """The selectors of a client, as texts."""

    labels: str
    fields: str

    def as_options(self) -> Document:
        """Returns them as in ListOptions."""
        return {"labelSelector": self.labels, "fieldSelector": self.fields}


class VirtualFunctions(NamedTuple):
    """A virtual resource, and the functions that make its objects, by verb."""

    resource: ServedResource
    hooks: Mapping[Kind, ExtensionHook]

    @property
    def extension(self) -> str:
        return next(iter(self.hooks.values())).extension


class VirtualRegistry:
    """The objects of one virtual resource, for one request. registry: that of stored objects.

    All methods raise the errors of the functions: `RequestRefused`, and InternalError for those that fail.
    """

    def __init__(self, functions: VirtualFunctions, registry: Registry, caller: Caller) -> None:
        self._hooks, self._registry, self._caller = functions.hooks, registry, caller
        self._resource = functions.resource
        self._form = ObjectForm(functions.resource, registry.keys)

    # ---- reads

    async def get(
        self, resource: ServedResource, namespace: str, name: str, at: ReadAt = MOST_RECENT
    ) -> StoredObject:
        """Returns an object, always as it is now. Raises NotFound."""
        if Kind.GET not in self._hooks:
            return await self._get_from_list(namespace, name)
        hook, result = await self._call(Kind.GET, namespace, name)
        if result.get("object") is None:
            raise NotFound(resource.group_resource, name)
        return await self._object_in(hook, result, namespace, name)

    async def _get_from_list(self, namespace: str, name: str) -> StoredObject:
        key = self._registry.key(self._resource, namespace, name)
        for each in await self._objects(namespace, Selectors("", f"metadata.name={name}")):
            if each.key == key:
                return each
        raise NotFound(self._resource.group_resource, name)

    async def select(self, namespace: str, name: str, options: ListOptions, texts: Selectors) -> ObjectList:
        """Returns all objects that the options select. They are not divided into chunks.

        name: of the only object, if it is one. texts: the selectors, for the function.
        """
        selection = self._registry.selection(self._resource, namespace, options, name=name)
        objects = await self._objects(namespace, texts)
        return ObjectList([each for each in objects if _is_selected(each, selection)], NO_REVISION)

    async def watch(self, namespace: str, name: str, options: ListOptions, texts: Selectors) -> VirtualEvents:
        """Returns the events of a watch, whose function has begun. name, texts: as for `select`.

        Raises TooManyRequests.
        """
        hook = self._hooks[Kind.WATCH]
        if hook.runner.streams_open >= STREAMS_MAX:
            raise TooManyRequests(f"too many watches of extension {hook.extension}: at most {STREAMS_MAX}")
        call = self._call_of(Kind.WATCH, namespace, options=texts.as_options())
        try:
            with self._caller.without_slot():
                source = await hook.watch(call, self._caller.remaining_s())
        except HookFailed as failed:
            raise InternalError.of(str(failed)) from None
        selection = self._registry.selection(self._resource, namespace, options, name=name)
        return VirtualEvents(self, hook, source, namespace, selection)

    async def event(self, hook: ExtensionHook, event: Any, namespace: str) -> tuple[EventType, StoredObject]:
        """Returns an event of a function, with its object. namespace: of the watch; empty for all."""
        match event:
            case {"type": str(kind), "object": found} if kind in EVENT_TYPES:
                check = partial(self._form.object, found, namespace, "object")
                return EventType(kind), await self._checked(hook, found, check)
        raise _invalid(hook, "an event is no object with a type")

    async def _objects(self, namespace: str, texts: Selectors) -> list[StoredObject]:
        hook, result = await self._call(Kind.LIST, namespace, options=texts.as_options())
        if not isinstance(found := result.get("items"), list):
            raise _invalid(hook, "items is not a list")
        return await self._checked(hook, found, partial(self._form.objects, found, namespace))

    # ---- writes

    async def create(self, request: WriteRequest, proposed: ProposedObject) -> WriteResult:
        """Create an object as `WritePath.create` does, by the function instead of in the store."""
        request = request._replace(manage_fields=None)
        return await _VirtualWrites(self, self._registry).create(request, proposed)

    async def update(self, request: WriteRequest, transform: Transform) -> WriteResult:
        """Replace an object as `WritePath.update` does. Its owners of fields are not recorded."""
        current = await self.get(request.resource, request.namespace, request.name)
        stored = await self._caller.offload.document(current)
        version = stored["metadata"].pop("resourceVersion", "")

        def expected(found: StoredObject) -> ProposedObject:
            proposed = transform(current)  # With its own version, which a patch keeps.
            wanted = proposed.document["metadata"].pop("resourceVersion", "")
            if wanted and wanted != version:
                raise Conflict(request.resource.group_resource, request.name)
            return proposed

        stored["metadata"]["resourceVersion"] = str(_REVISION)
        path = _VirtualWrites(self, self._registry, self._form.encoded(stored), version)
        written = await path.update(request._replace(manage_fields=None), expected)
        return written._replace(found=current) if written.is_noop else written

    async def delete(self, request: DeleteRequest) -> DeletionResult:
        """Delete an object after admission. The function deletes it at once, whatever its finalizers."""
        resource, options = request.resource, request.options
        found = await self.get(resource, request.namespace, request.name)
        document = await self._caller.offload.document(found)
        deletion.check_preconditions(resource, document, options)
        warnings = await admitted(request.admission, document) if request.admission is not None else ()
        if self._is_called(Kind.DELETE, is_dry_run=options.dry_run):
            await self._call(
                Kind.DELETE,
                request.namespace,
                request.name,
                is_dry_run=options.dry_run,
                options=options.document("DELETE", self._caller.meta_group),
                old=document,
            )
        return DeletionResult(found, True, document["metadata"].get("uid", ""), warnings)

    async def delete_unreadable(self, request: DeleteRequest) -> Sequence[str]:
        """Virtual objects are never damaged. Raises BadRequest."""
        raise BadRequest(f"{request.resource.group_resource} are not stored")

    async def written(
        self, kind: Kind, request: WriteRequest, document: Document, old: Document | None = None
    ) -> StoredObject:
        """Returns an object as a function has written it, or would have."""
        namespace, name = request.namespace, document["metadata"]["name"]
        is_dry_run = request.options.dry_run
        if not self._is_called(kind, is_dry_run=is_dry_run):
            return self._form.encoded(document)
        hook, result = await self._call(
            kind,
            namespace,
            name,
            is_dry_run=is_dry_run,
            options=request.options.document(kind.upper(), self._caller.meta_group),
            object=document,
            old=old,
        )
        return await self._object_in(hook, result, namespace, name)

    # ---- calling functions

    def _is_called(self, kind: Kind, *, is_dry_run: bool) -> bool:
        """Whether a function is called: for dry runs only if it knows of them."""
        return not is_dry_run or not SHOWS_DRY_RUN.isdisjoint(self._hooks[kind].info.wants)

    async def _call(
        self,
        kind: Kind,
        namespace: str,
        name: str = "",
        *,
        is_dry_run: bool = False,
        options: Mapping[str, Any] | None = None,
        **objects: Document | None,
    ) -> tuple[ExtensionHook, Mapping[str, Any]]:
        """Returns a function, and its result."""
        hook, caller = self._hooks[kind], self._caller
        call = self._call_of(kind, namespace, name, is_dry_run=is_dry_run, options=options)
        if "object" in objects:
            call["object"] = objects["object"]
        if (old := objects.get("old")) is not None:
            call["oldObject"] = old
        remaining_s = caller.remaining_s()
        try:
            result = await hook.call(call, remaining_s, waiting=caller.without_slot())
        except HookFailed as failed:
            raise InternalError.of(str(failed)) from None
        refused = refusal_in(hook, result)
        warnings = result.get("warnings", [])
        if not isinstance(warnings, list) or not all(isinstance(each, str) for each in warnings):
            raise _invalid(hook, "warnings is not a list of texts")
        caller.warnings.extend(warnings[:_WARNINGS_MAX])
        if refused is not None:
            raise refused
        return hook, result

    def _call_of(
        self,
        kind: Kind,
        namespace: str,
        name: str = "",
        *,
        is_dry_run: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Document:
        """Returns a call without objects."""
        request = {
            **self._caller.description,
            "operation": kind.upper(),
            "namespace": namespace,
            "name": name,
            "dryRun": is_dry_run,
            "options": options or {},
        }
        return {"request": request}

    async def _object_in(
        self, hook: ExtensionHook, result: Mapping[str, Any], namespace: str, name: str
    ) -> StoredObject:
        """Returns the object in the result of a function."""
        found = result.get("object")
        return await self._checked(hook, found, partial(self._form.object, found, namespace, "object", name))

    async def _checked(self, hook: ExtensionHook, found: Any, check: Callable[[], _T]) -> _T:
        """Returns the result of a check of `found`, which runs in a thread if it may take long."""
        resource = self._resource
        size = size_class_of_document({"found": found})
        if resource.strategy.is_costly:
            size = max(size, SizeClass.LARGE)
        resource.compile()
        try:
            return await self._caller.offload.run_begun(size, check)
        except InvalidObject as invalid:
            raise _invalid(hook, str(invalid)) from None


class VirtualEvents:
    """The events of one watch, as far as it selects their objects. source: from which they come.

    An object that is selected no more is deleted for the client, as in watches of stored objects.
    """

    def __init__(
        self,
        objects: VirtualRegistry,
        hook: ExtensionHook,
        source: EventSource,
        namespace: str,
        selection: Selection,
        added_max: int = ADDED_MAX,
    ) -> None:
        self._objects, self._hook, self._source = objects, hook, source
        self._namespace, self._selection = namespace, selection
        # The keys of the objects that the client has, if it selects by more than the key.
        self._known: set[str] = set()
        self._added_max = self._known_max = added_max

    def begin_with(self, objects: Iterable[StoredObject]) -> None:
        """Note the objects that the client gets before all events."""
        self._known.update(each.key for each in objects)
        self._known_max = len(self._known) + self._added_max

    async def read(self) -> Sequence[tuple[EventType, StoredObject]] | None:
        """Returns the next events; None after the end. Raises ApiError."""
        try:
            found = await self._source.read()
        except HookFailed as failed:
            raise InternalError.of(str(self._hook.failed(failed))) from None
        if not found:
            if (refused := refusal_in(self._hook, self._source.result)) is not None:
                raise refused
            return None
        selected = []
        for each in found:
            kind, made = await self._objects.event(self._hook, each, self._namespace)
            if (shown := self._shown(kind, made)) is not None:
                selected.append((shown, made))
            if len(self._known) > self._known_max:
                why = f"has added more than {self._added_max} objects to a watch, and deleted too few"
                raise InternalError.of(str(self._hook.invalid(why)))
            await asyncio.sleep(0)  # A function may yield events as fast as the server reads them.
        return selected

    def _shown(self, kind: EventType, found: StoredObject) -> EventType | None:
        """Returns what an event is for the client; None if the client does not get it."""
        keys, predicate = self._selection.keys, self._selection.predicate
        if not keys.start <= found.key < keys.end:
            return None
        if predicate is None:
            return kind
        was_known = found.key in self._known
        if kind is not EventType.DELETED and predicate(found):
            self._known.add(found.key)
            return kind
        self._known.discard(found.key)
        return EventType.DELETED if was_known or predicate(found) else None

    def close(self) -> None:
        """End the function."""
        self._source.close()


def refusal_in(hook: ExtensionHook, result: Mapping[str, Any]) -> RequestRefused | None:
    """Returns the error by which a function refuses a request; None if it does not. Raises InternalError."""
    try:
        return refusal(result)
    except InvalidObject as invalid:
        raise _invalid(hook, str(invalid)) from None


def _is_selected(found: StoredObject, selection: Selection) -> bool:
    keys, predicate = selection.keys, selection.predicate
    return keys.start <= found.key < keys.end and (predicate is None or predicate(found))


def _invalid(hook: ExtensionHook, why: str) -> InternalError:
    return InternalError.of(str(hook.invalid(f"has returned an invalid result: {why}")))


class _VirtualWrites(WritePath):
    """The write path of virtual objects, which ends in a function instead of the store.

    current: the object before an update. version: its own resourceVersion, in place of which it has another.
    """

    def __init__(
        self,
        objects: VirtualRegistry,
        registry: Registry,
        current: StoredObject | None = None,
        version: str = "",
    ) -> None:
        clock = registry.clock.time
        super().__init__(
            registry.cache, registry.transactions, registry.keys, registry.offload, clock, None, None
        )
        self._objects, self._current, self._version = objects, current, version

    async def _put_new(
        self, request: WriteRequest, key: str, document: Document, extra: ExtraWrites
    ) -> StoredObject:
        return await self._objects.written(Kind.CREATE, request, document)

    async def _read(self, request: WriteRequest, key: str) -> KeyVersion[StoredObject]:
        return KeyVersion(key, self._current, revision=_REVISION, create_revision=_REVISION)

    async def _commit(
        self,
        request: WriteRequest,
        key: str,
        expected: int,
        attempt: UpdateAttempt,
        allocations: ObjectAllocations | None,
    ) -> StoredObject:
        for document in (attempt.new, attempt.old):
            del document["metadata"]["resourceVersion"]
            if self._version:
                document["metadata"]["resourceVersion"] = self._version
        return await self._objects.written(Kind.UPDATE, request, attempt.new, attempt.old)
