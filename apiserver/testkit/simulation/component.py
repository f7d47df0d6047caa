"""Lets simulated components write objects as their own clients would, without HTTP.

A scheduler, a kubelet or a controller is a user, whose writes pass defaulting, admission and validation, and
own fields, as those of other clients. They are not authorized, as the real components have all necessary
permissions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from apiserver.admission.chain import AdmissionAttributes, AdmissionChain, Operation
from apiserver.controller_runtime.controller import Controller, Outcome
from apiserver.controller_runtime.informer import Informer, ListWatch
from apiserver.controller_runtime.work_queue import WorkQueue
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.options import DeleteOptions, WriteOptions
from apiserver.meta.vocabulary import Document, GroupResource, UserInfo
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.guard import TransactionGuard
from apiserver.registry.results import DeletionResult
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.write_request import Admission, ProposedObject, WriteRequest
from apiserver.testkit.simulation.object_index import ObjectIndex
from apiserver.testkit.simulation.resources import WITH_DOMAIN

K = TypeVar("K", bound=Hashable)

# Returns what must still hold when an object is created in a namespace; raises NotFound, Forbidden.
MayCreate = Callable[[ServedResource, str, str], Awaitable[TransactionGuard | None]]
# Changes a document in place; returns False if there is nothing to change.
Change = Callable[[Document], bool]


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The parts of the server that all simulated components need.

    may_create: whether a namespace accepts new objects. clock: seconds since 1970. offload: runs long work.
    """

    registry: Registry
    served: ServedTable
    brand: Brand
    admission: AdmissionChain
    field_managers: FieldManagers
    may_create: MayCreate
    clock: Callable[[], float]
    offload: Offload

    def serves(self, resource: GroupResource) -> bool:
        return self._hub(resource) is not None

    def resource(self, resource: GroupResource) -> ServedResource:
        """Returns a served resource, whose group may omit the domain, as `coordination`."""
        found = self._hub(resource)
        assert found is not None, f"the controller runs only if {resource} are served"
        return found

    def _hub(self, resource: GroupResource) -> ServedResource | None:
        group, name = resource
        return self.served.hub(self.brand.group(group) if group in WITH_DOMAIN else group, name)

    def informer(self, resource: GroupResource, index: ObjectIndex, queue: WorkQueue[Any]) -> Informer:
        """Returns an informer that fills an index with the objects of a resource, as fast as a queue takes
        them.
        """
        prefix = self.registry.prefix_of(self.resource(resource))
        return Informer(
            ListWatch(self.registry.cache, prefix),
            index.notify,
            reports_missed_deletions=True,
            wait_for_room=queue.wait_for_room,
        )


async def run_controller(
    queue: WorkQueue[K],
    reconcile: Callable[[K], Awaitable[Outcome]],
    informers: Sequence[Informer],
    *,
    events: EventRecorder | None = None,
    workers: int = 1,
) -> None:
    """Reconcile the keys of a queue once all informers have synced, and write events, until cancelled."""

    async def reconcile_synced(key: K) -> Outcome:
        for each in informers:
            await each.has_synced.wait()
        return await reconcile(key)

    async with asyncio.TaskGroup() as tasks:
        writing_events = tasks.create_task(events.run()) if events is not None else None
        await Controller(queue, reconcile_synced, workers=workers, informers=informers).run()
        if writing_events is not None:
            writing_events.cancel()


def warn_about(
    events: EventRecorder, resource: ServedResource, found: Document, *, reason: str, message: str
) -> None:
    """Write a warning about an object, as an Event."""
    meta = found["metadata"]
    events.warn(resource, meta["namespace"], meta["name"], meta["uid"], reason=reason, message=message)


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The object, or the subresource, that a component writes. subresource: empty for the object itself.

    uid: that of the object; another one of that name is not changed.
    rules: those of an endpoint that has its own kind and changes the object, as a binding does. Admission
        does not run then, and no field manager owns the written fields.
    """

    resource: ServedResource
    namespace: str
    name: str
    uid: str = ""
    subresource: str = ""
    rules: UpdateStrategy | None = None

    @classmethod
    def of(cls, resource: ServedResource, found: Document, subresource: str = "") -> WriteTarget:
        meta = found["metadata"]
        return cls(resource, meta.get("namespace", ""), meta["name"], meta["uid"], subresource)


class Component:
    """Writes objects as one component of the cluster. manager: that of the fields that it writes."""

    def __init__(self, cluster: ClusterAccess, user: UserInfo, manager: str) -> None:
        self._cluster, self._user, self._manager = cluster, user, manager
        self._offload = cluster.offload.for_user(user.name)

    async def create(self, resource: ServedResource, document: Document) -> Document:
        """Create an object, and return it as stored. document: taken over.

        Raises AlreadyExists, NotFound or Forbidden for its namespace, Invalid, and the errors of admission
        and of the storage.
        """
        cluster = self._cluster
        meta = document["metadata"]
        namespace, name = meta.get("namespace", ""), meta.get("name", "")
        document = {**document, "apiVersion": resource.api_version, "kind": resource.kind}
        resource.check(document)
        guard = await cluster.may_create(resource, namespace, name)
        target = WriteTarget(resource, namespace, name)
        request = WriteRequest(
            resource=resource,
            namespace=namespace,
            name=name,
            user=self._user,
            admission=self._admission(target, Operation.CREATE, WriteOptions()),
            manage_fields=cluster.field_managers.updater(resource, "", self._manager),
            offload=self._offload,
            guard=guard,
        )
        return (await cluster.registry.create(request, ProposedObject(document))).found.document()

    async def update(self, target: WriteTarget, change: Change) -> Document | None:
        """Updates an object, and returns its new state; None if another object has its name.

        Raises NotFound, Invalid, and the errors of admission and of the storage.
        """
        cluster, resource, subresource = self._cluster, target.resource, target.subresource
        is_other = False

        def changed(found: StoredObject) -> ProposedObject:
            nonlocal is_other
            document = found.document()
            is_other = bool(target.uid) and document["metadata"]["uid"] != target.uid
            if is_other or not change(document):
                return ProposedObject(found.document())
            resource.check(document)
            return ProposedObject(document)

        request = WriteRequest(
            resource=resource,
            namespace=target.namespace,
            name=target.name,
            update=target.rules,
            user=self._user,
            offload=self._offload,
        )
        if target.rules is None:
            request = request._replace(
                update=resource.subresources[subresource].update if subresource else None,
                admission=self._admission(target, Operation.UPDATE, WriteOptions()),
                manage_fields=cluster.field_managers.updater(resource, subresource, self._manager),
            )
        written = await cluster.registry.update(request, changed)
        return None if is_other else written.found.document()

    async def delete(
        self, target: WriteTarget, *, grace_period_s: int | None = None, propagation: str = ""
    ) -> DeletionResult:
        """Delete an object, unless another one has its name.

        Raises NotFound, Conflict, and the errors of admission and of the storage.
        """
        options = DeleteOptions(
            grace_period_s=grace_period_s, uid=target.uid or None, propagation=propagation
        )
        admission = self._admission(target, Operation.DELETE, options)
        request = DeleteRequest(
            target.resource, target.namespace, target.name, options, admission, self._user.name
        )
        return await self._cluster.registry.delete(request)

    def _admission(
        self, target: WriteTarget, operation: Operation, options: WriteOptions | DeleteOptions
    ) -> Admission:
        return self._cluster.admission.admission_for(
            AdmissionAttributes(
                operation,
                target.resource,
                target.namespace,
                target.name,
                self._user,
                self._offload,
                target.subresource,
                path_name="" if operation is Operation.CREATE else target.name,
                options=options,
            )
        )
