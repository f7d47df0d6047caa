"""Calls the reconcile functions of extensions: for each object of a resource, and again when the object
changes, or one that it owns.

A function gets the object as it is in the watch cache, in the version that its decorator names. It is called
for an object whose deletion has begun, but not for one that is gone. If it fails, it is called again with
back-off. While the worker of the extension does not run, objects wait.

The resources may be served later, or not any more, as definitions come and go: the informers follow them.
Source of the idea: kubernetes-sigs/controller-runtime, pkg/builder and pkg/handler/enqueue_owner.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from apiserver.controller_runtime.controller import Controller, Outcome, ReconcileFailed, Requeue
from apiserver.controller_runtime.informer import Informer, ListWatch, Notification
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.controller_manager import ControllerSpec
from apiserver.extensions.hooks import Kind
from apiserver.extensions.host.hooks import ExtensionHook, ExtensionHooks
from apiserver.extensions.host.runner import Failure, HookFailed
from apiserver.extensions.resource_names import ResourceName
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import NotFound
from apiserver.meta.owners import controller_of
from apiserver.meta.vocabulary import GroupKind
from apiserver.registry.served_resource import ResourceTable, ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import OWNER_REFERENCES, StoredObject
from apiserver.storage.interface import ANY

log = logging.getLogger(__name__)

# A conflict is resolved by the next call; what fails for another reason may fail for hours.
BACKOFF: Final = Backoff(base_s=0.05, max_s=300.0)
# A function that returns 0 each time must not take all the time of the server.
REQUEUE_MIN_S: Final = 0.1
REQUEUE_MAX_S: Final = 1e9
# When an object is tried again whose function could not be called, as the worker starts again.
NOT_RUNNING_DELAY_S: Final = 1.0


class ObjectKey(NamedTuple):
    """The namespace and name of an object, as in log lines."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def reconcilers(
    extensions: ExtensionHooks,
    registry: Registry,
    served: ServedTable,
    wait_until_ready: Callable[[], Awaitable[None]],
) -> Iterator[ControllerSpec]:
    """Yields a controller for each reconcile function. Only the leader runs them.

    wait_until_ready: returns when the server answers the requests of the functions.
    """
    names: set[str] = set()
    for hook in extensions.of_kind(Kind.RECONCILE):
        # A function may have several resources.
        name = f"extension-{hook.extension}-{hook.info.name}"
        if name in names:
            name = f"{name}-{hook.info.number}"
        names.add(name)

        def build(name: str = name, hook: ExtensionHook = hook) -> ExtensionReconciler:
            return ExtensionReconciler(name, hook, registry, served, wait_until_ready)

        yield ControllerSpec(name, build, leader_only=True)


class ExtensionReconciler:
    """The controller that calls one reconcile function."""

    def __init__(
        self,
        name: str,
        hook: ExtensionHook,
        registry: Registry,
        served: ServedTable,
        wait_until_ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._hook = hook
        self._registry = registry
        self._served = served
        self._wait_until_ready = wait_until_ready
        self._resource_name = ResourceName.of(hook.info.options["resource"])
        self._owned_names = [ResourceName.of(each) for each in hook.info.options["owns"]]
        # The resource, while it is served, and the informers that run.
        self._resource: ServedResource | None = None
        self._informing: dict[_Source, asyncio.Task[None]] = {}
        self._table_changed = asyncio.Event()
        self.queue: WorkQueue[ObjectKey] = WorkQueue(name, BACKOFF)

    async def run(self) -> None:
        """Call the function until cancelled."""
        await self._wait_until_ready()
        controller = Controller(self.queue, self._reconcile, workers=self._hook.info.options["workers"])
        unsubscribe = self._served.call_on_change(self._table_changed.set)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(controller.run(), name=self.queue.name)
                self._follow(self._served.current, tasks)
                if self._resource is None:
                    log.info("%s: the server does not serve %s yet", self.queue.name, self._resource_name)
                while True:
                    await self._table_changed.wait()
                    self._table_changed.clear()
                    self._follow(self._served.current, tasks)
        finally:
            unsubscribe()

    # ---- what is served

    def _follow(self, table: ResourceTable, tasks: asyncio.TaskGroup) -> None:
        """Run informers for the resources that are served now."""
        resource = find_served(table, self._resource_name)
        self._resource = resource
        sources = set(self._sources(table, resource)) if resource is not None else set()
        for source in self._informing.keys() - sources:
            self._informing.pop(source).cancel()
        for source in sources - self._informing.keys():
            informer = self._informer(source)
            self._informing[source] = tasks.create_task(informer.run(), name=self.queue.name)

    def _sources(self, table: ResourceTable, resource: ServedResource) -> Iterator[_Source]:
        yield _Source(self._registry.prefix_of(resource))
        for name in self._owned_names:
            if (owned := find_served(table, name)) is not None:
                owner = GroupKind(resource.group_version.group, resource.kind)
                yield _Source(self._registry.prefix_of(owned), owner, resource.is_namespaced)

    def _informer(self, source: _Source) -> Informer:
        cache = self._registry.cache
        if source.owner is None:
            return Informer(
                ListWatch(cache, source.prefix), self._on_object, wait_for_room=self.queue.wait_for_room
            )
        owners = OwnerIndex(source.owner, is_namespaced=source.is_namespaced)

        def on_owned(notification: Notification) -> None:
            for key in owners.replaced(notification):
                self.queue.add(key)

        return Informer(
            ListWatch(cache, source.prefix, selects=_may_have_owners),
            on_owned,
            reports_missed_deletions=True,
            wait_for_room=self.queue.wait_for_room,
        )

    def _on_object(self, notification: Notification) -> None:
        key = ObjectKey(notification.namespace, notification.name)
        if notification.new is None:
            self.queue.cancel(key)
        else:
            self.queue.add(key)

    # ---- calls

    async def _reconcile(self, key: ObjectKey) -> Outcome:
        """Call the function for an object. Raises ReconcileFailed, and the errors of `Registry.get`."""
        while (resource := self._resource) is not None:
            for each in resource.preparations:
                if each.is_due:
                    await self._registry.offload.run_begun(SizeClass.HUGE, each.prepare)
            try:
                found = await self._registry.get(resource, key.namespace, key.name, ANY)
            except NotFound:
                break
            try:
                result = await self._hook.call({"object": orjson.Fragment(found.json)}, is_logged=False)
                return outcome_of(self._hook, result)
            except HookFailed as failed:
                if failed.failure is not Failure.NOT_RUNNING:
                    raise ReconcileFailed(f"{failed}\n{failed.traceback}".rstrip()) from None
            await asyncio.sleep(NOT_RUNNING_DELAY_S)
        return None


class _Source(NamedTuple):
    """What an informer informs of. owner: of its objects; None for the reconciled objects themselves.

    is_namespaced: whether the owner has a namespace.
    """

    prefix: str
    owner: GroupKind | None = None
    is_namespaced: bool = False


class OwnerIndex:
    """The controllers of the objects of one resource, as far as they are of one kind.

    It remembers them, as a deletion that was missed is reported without the object.
    """

    def __init__(self, owner: GroupKind, *, is_namespaced: bool) -> None:
        self._owner, self._is_namespaced = owner, is_namespaced
        self._owners: dict[str, ObjectKey] = {}

    def replaced(self, notification: Notification) -> set[ObjectKey]:
        """Note a change of an object. Returns its owners before and after. Raises CorruptObject."""
        before = self._owners.pop(notification.key, None)
        after = self._owner_of(notification.namespace, notification.new) if notification.new else None
        if after is not None:
            self._owners[notification.key] = after
        return {each for each in (before, after) if each is not None}

    def _owner_of(self, namespace: str, found: StoredObject) -> ObjectKey | None:
        if not _may_have_owners(found):
            return None
        reference = controller_of({"metadata": orjson.loads(found.metadata())})
        if reference is None or reference.get("kind") != self._owner.kind:
            return None
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        if group != self._owner.group:
            return None
        return ObjectKey(namespace if self._is_namespaced else "", str(reference.get("name", "")))


def find_served(table: ResourceTable, name: ResourceName) -> ServedResource | None:
    """Returns the served resource that a name means, in the version that it names, or the preferred one."""
    groups = [(group, [each.version for each in versions]) for group, versions in table.groups.items()]
    return name.find(groups, table.find)


def _may_have_owners(found: StoredObject) -> bool:
    return OWNER_REFERENCES in found.tail


def outcome_of(hook: ExtensionHook, result: Mapping[str, Any]) -> Outcome:
    """Returns what becomes of an object. Raises ReconcileFailed for a result of the wrong type."""
    seconds = result.get("requeueAfterSeconds")
    if seconds is None:
        return None
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= REQUEUE_MAX_S:
        raise ReconcileFailed(
            f'extension "{hook.extension}": {hook.info} has returned {seconds!r} as the seconds to wait'
        )
    return Requeue(after_s=max(float(seconds), REQUEUE_MIN_S))
