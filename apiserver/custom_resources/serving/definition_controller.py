"""Serves the resources of definitions, and writes the names and conditions of definitions.

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/customresource_handler.go, pkg/controller/status and
pkg/controller/establish.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import orjson

from apiserver.controller_runtime.controller import Controller, Outcome
from apiserver.controller_runtime.informer import Informer, InformerCallbacks, ListWatch, Notification
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.custom_resources import definitions
from apiserver.custom_resources.definitions import status
from apiserver.custom_resources.definitions.conditions import ESTABLISHED, NAMES_ACCEPTED
from apiserver.custom_resources.definitions.status import NamesInUse, have_common_name
from apiserver.custom_resources.serving.definition_finalizer import DefinitionFinalizer
from apiserver.meta import timestamps
from apiserver.meta.brand import Brand
from apiserver.meta.conditions import is_condition_true
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.metrics.work_queues import MeasuredQueue
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.write_request import KUBE_APISERVER, ProposedObject, WriteRequest

if TYPE_CHECKING:
    from apiserver.custom_resources.serving.resources import DefinedResources

# Takes the stored definition and its document. Raises LookupError; see `CustomResourceFactory.create`.
MakeResources: TypeAlias = Callable[[StoredObject, Document], "DefinedResources"]
# Takes the new table, and the resources that are served no more, or differently.
Publish = Callable[[ResourceTable, Sequence[ServedResource]], None]
# Definitions that are served before other tasks have their turn: each may have large schemas.
BATCH_MAX: Final = 16
BACKOFF: Final = Backoff(base_s=1.0, max_s=15.0)
# The server itself writes the status: nothing is copied from the stored object, nothing is validated again.
_BY_SERVER: Final = UpdateStrategy()


def names_of(resource: ServedResource) -> Document:
    """Returns the names of a resource as a definition has them."""
    return {
        "plural": resource.resource,
        "singular": resource.singular,
        "shortNames": list(resource.short_names),
        "kind": resource.kind,
        "listKind": resource.list_kind,
    }


class NotServed(Exception):
    """The resources of a definition cannot be served; the message says why."""


@dataclass(slots=True)
class _KnownDefinition:
    """The last seen state of a definition.

    names: the accepted ones. signature: a digest of everything that its resources depend on; None if none are
        served.
    """

    revision: int
    group: str
    names: Document
    waits_for_names: bool
    signature: bytes | None = None
    served: DefinedResources | None = None


@dataclass(slots=True)
class _TableChange:
    gone: dict[ServedResource, None] = field(default_factory=dict)
    new: dict[ServedResource, None] = field(default_factory=dict)


class DefinitionController:
    """Keeps the table of served resources, and the status of definitions, up to date.

    table: the built-in resources; definitions of the same resources are not served.
    publish: called with each new table.
    """

    def __init__(
        self,
        registry: Registry,
        table: ResourceTable,
        publish: Publish,
        make_resources: MakeResources,
        *,
        brand: Brand,
        clock: Callable[[], float] = time.time,
    ) -> None:
        resource = table.hub(definitions.group_of(brand), definitions.RESOURCE)
        assert resource is not None
        self._resource = resource
        self._registry = registry
        self._table = table
        self._publish = publish
        self._make_resources = make_resources
        self._brand = brand
        self._clock = clock
        self._builtin = {GroupResource(*each.stored_group_resource) for each in table.resources}
        self._virtual = [each for each in table.resources if each.is_virtual]
        self._prefix = registry.prefix_of(resource)
        self._defined: dict[str, _KnownDefinition] = {}  # by key
        self._groups: dict[str, dict[str, None]] = {}  # by group: the keys of its definitions
        self._names_in_use: dict[str, NamesInUse] = {}
        self._change = _TableChange()
        self._next_batch = asyncio.Event()
        # The keys of definitions whose names and conditions have to be checked.
        self._queue: WorkQueue[str] = WorkQueue("crd_naming_condition_controller", BACKOFF)
        self._informer = Informer(
            ListWatch(registry.cache, registry.prefix_of(resource)),
            self._on_definition,
            callbacks=InformerCallbacks(on_batch=self._replace_table),
            reports_missed_deletions=True,
            batch_max=BATCH_MAX,
        )
        self._finalizer = DefinitionFinalizer(registry, resource, brand, self._stored_resource, clock)

    @property
    def queues(self) -> Sequence[MeasuredQueue]:
        return (self._queue, self._finalizer.queue)

    async def run(self, on_synced: Callable[[], None]) -> None:
        """Serve definitions until cancelled. on_synced: called once all existing ones are served."""
        controller = Controller(self._queue, self._reconcile, informers=[self._informer])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(controller.run(), name="definitions")
            tasks.create_task(self._finalizer.run(), name="definition-finalizer")
            await self._informer.has_synced.wait()
            on_synced()

    async def wait_until_served(self, name: str, revision: int) -> None:
        """Return once the resources of a definition are served as it is at a revision, or later.

        Raises NotServed if others have its names, or a built-in type is served under them; NotFound if it
        does not exist.
        """
        await self._informer.has_synced.wait()
        key = self._registry.key(self._resource, "", name)
        while True:
            batch = self._next_batch  # Taken first, as the next one may come while the cache is read.
            known = self._defined.get(key)
            if known is None and await self._registry.cache.get(key) is None:
                raise NotFound(self._resource.group_resource, name)
            if known is not None and known.revision >= revision and not self._has_change:
                if known.served is not None:
                    return
                if (seen := await self._registry.cache.get(key)) is not None and seen.value is not None:
                    self._require_servable(await self._decoded(seen.value), known)
            await batch.wait()

    async def wait_until_known(self) -> None:
        """Return once all existing definitions are known."""
        await self._informer.has_synced.wait()

    def definition_with_names_of(self, resource: ServedResource) -> str:
        """Returns the name of a definition that has a name of a virtual resource; empty if none has."""
        names = names_of(resource)
        keys = self._groups.get(resource.group_version.group, ())
        found = (key for key in keys if have_common_name(names, self._defined[key].names))
        return next(found, "").rpartition("/")[2]

    def _require_servable(self, definition: Document, known: _KnownDefinition) -> None:
        spec = definition["spec"]
        name = GroupResource(spec["group"], spec["names"]["plural"])
        if any(each.group_resource == name for each in self._virtual):
            raise NotServed("the server has a virtual resource of this name")
        if name in self._builtin:
            raise NotServed("the server has a built-in type of this name")
        found = self._with_conditions(definition, known)["status"]["conditions"]
        for each in found:
            if each["type"] == NAMES_ACCEPTED and each["status"] == "False":
                raise NotServed(f"its names are not accepted: {each['message']}")

    # ---- what is served

    def change_builtin(
        self, gone: Collection[ServedResource], new: Collection[ServedResource]
    ) -> ResourceTable:
        """Replaces the built-in resources, and returns the table of all resources, for the caller to
        publish.
        """
        self._table = self._table.changed(gone, new)
        return self._table

    async def _on_definition(self, notification: Notification) -> None:
        key, revision, found = notification.key, notification.revision, notification.new
        known, definition = self._defined.get(key), None
        if found is not None and (known is None or revision > known.revision):
            definition = await self._registry.offload.document(found)
            known = self._defined.get(key)  # We may have written it meanwhile.
        if known is not None and revision <= known.revision:
            # We wrote it ourselves, and know it already. The cache's bytes need not be there twice.
            if found is not None and known.served is not None and revision == known.revision:
                known.served.source.stored = found
        elif found is None:
            self._forget(key)
        else:
            assert definition is not None
            self._learn(key, revision, found, definition)
            if not definitions.is_deleted(definition):
                self._queue.add(key)

    def _learn(self, key: str, revision: int, found: StoredObject, definition: Document) -> None:
        known = self._defined.get(key)
        names, group = definitions.accepted_names(definition), definition["spec"]["group"]
        if known is None:
            known = self._defined[key] = _KnownDefinition(revision, group, {}, waits_for_names=False)
            self._groups.setdefault(group, {})[key] = None
        self._rename(known, names)
        known.revision = revision
        known.waits_for_names = not is_condition_true(definition, NAMES_ACCEPTED)
        self._serve(known, found, definition)
        if definitions.is_deleted(definition):
            self._finalizer.queue.add(definition["metadata"]["name"])

    def _serve(self, known: _KnownDefinition, found: StoredObject, definition: Document) -> None:
        """Update the definition's resources in the table, if they have changed."""
        is_established = is_condition_true(definition, ESTABLISHED)
        plural = definition["spec"]["names"]["plural"]
        if not is_established or GroupResource(known.group, plural) in self._builtin:
            signature = None
        else:
            # The generation would not do: to be deleted counts, too.
            content = orjson.dumps((definition["metadata"].get("uid"), definition["spec"], known.names))
            signature = hashlib.blake2b(content).digest()
        if signature == known.signature:
            if known.served is not None:
                known.served.source.stored = found
            return
        now = self._make_resources(found, definition) if signature is not None else None
        self._withdraw(known)
        known.signature, known.served = signature, now
        if now is not None:
            self._change.new |= dict.fromkeys(now.resources)

    def _withdraw(self, known: _KnownDefinition) -> None:
        if known.served is None:
            return
        for each in known.served.resources:
            if each in self._change.new:
                del self._change.new[each]
            else:
                self._change.gone[each] = None
        known.served = None

    def _forget(self, key: str) -> None:
        known = self._defined.pop(key, None)
        if known is None:
            return
        self._withdraw(known)
        self._rename(known, {})
        del self._groups[known.group][key]
        if not self._groups[known.group]:
            del self._groups[known.group]
            self._names_in_use.pop(known.group, None)

    def _replace_table(self) -> None:
        change = self._change
        if self._has_change:
            table = self._table.changed(change.gone, change.new)
            self._publish(table, tuple(change.gone))
            self._table = table
        # Not before that: a change that could not be published is tried again with the next.
        self._change = _TableChange()
        self._next_batch.set()
        self._next_batch = asyncio.Event()

    @property
    def _has_change(self) -> bool:
        """Whether there are resources that are not in the published table yet, or still are."""
        return bool(self._change.gone or self._change.new)

    def _stored_resource(self, name: str) -> ServedResource | None:
        """Returns the resource as which a definition's objects are stored; None if it was never served."""
        known = self._defined.get(self._registry.key(self._resource, "", name))
        return known.served.stored if known is not None and known.served is not None else None

    # ---- names and conditions

    def _names_of(self, group: str) -> NamesInUse:
        """Returns the names in use in a group, by definitions and by virtual resources."""
        found = self._names_in_use.get(group)
        if found is None:
            found = self._names_in_use[group] = NamesInUse()
            for each in self._virtual:
                if each.group_version.group == group:
                    found.add(names_of(each))
        return found

    def _rename(self, known: _KnownDefinition, names: Document) -> None:
        """Note the current names of a definition, and check the definitions of its group that wait for
        names.
        """
        if names == known.names:
            return
        in_use = self._names_of(known.group)
        if known.names:
            in_use.remove(known.names)
            for key in self._groups[known.group]:
                if self._defined.get(key) is not None and self._defined[key].waits_for_names:
                    self._queue.add(key)
        if names:
            in_use.add(names)
        known.names = names

    async def _reconcile(self, key: str) -> Outcome:
        """Write the names and conditions of one definition at a time, so that the first gets a disputed
        name.
        """
        await self._informer.has_synced.wait()  # All names in use are known by then.
        with suppress(NotFound):
            await self._update_status(key)
        return None

    async def _update_status(self, key: str) -> None:
        known = self._defined.get(key)
        if known is None:
            return
        seen = self._registry.cache.get_cached(key)
        if seen is not None and seen.value is not None and seen.revision >= known.revision:
            document = await self._decoded(seen.value)
            if self._with_conditions(document, known).get("status") == document.get("status"):
                return
        # What other servers write meanwhile comes as a notification.
        request = WriteRequest(
            resource=self._resource,
            namespace="",
            name=key.rpartition("/")[2],
            update=_BY_SERVER,
            writer=KUBE_APISERVER.at("status"),
        )
        updated = (
            await self._registry.update(
                request, lambda current: ProposedObject(self._with_conditions(current.document(), known))
            )
        ).found
        revision, document = int(updated.resource_version), await self._decoded(updated)
        if key in self._defined and revision > known.revision:
            # The next definition must know of these names, and clients need not wait for the notification.
            self._learn(key, revision, updated, document)
            self._replace_table()

    async def _decoded(self, found: StoredObject) -> Document:
        """Returns a definition, for which a large schema takes most of a turn of the event loop."""
        return await self._registry.offload.document(found)

    def _with_conditions(self, definition: Document, known: _KnownDefinition) -> Document:
        if definitions.is_deleted(definition):
            return definition
        in_use = self._names_of(known.group)
        now = timestamps.to_text(self._clock())
        return status.with_status(definition, in_use, now, brand=self._brand)
