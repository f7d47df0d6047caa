"""Calculates the usage of quotas, when their limits or the counted objects change.

Admission adds objects to `status.used` before they are written; this controller subtracts deleted objects,
and those that were not written after all. A calculation replaces only the status that it began with, so that
nothing admitted meanwhile is lost. It may have to wait while objects are admitted all the time, at the latest
until the quota is used up. Only the leader runs this; calculating twice is harmless.

While an object of a namespace is unreadable, for example without its key, its usage is unknown. Then only
usage that is a number of objects decreases (`UsageCalculation`).
Source: kubernetes, pkg/controller/resourcequota.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from apiserver.catalogue.core.resource_quotas.usage import (
    QuotaEvaluator,
    Usage,
    UsageCalculation,
    resources_without_quota,
)
from apiserver.controller_runtime.controller import Controller, Cooldown, Outcome, Requeue
from apiserver.controller_runtime.informer import Informer, ListWatch, Notification
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.load.offload import Offload
from apiserver.load.size_class import size_class
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Conflict, NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, WriteRequest
from apiserver.storage.event_loop_turns import in_turns
from apiserver.storage.interface import ANY
from apiserver.storage.keys import prefix_range

log = logging.getLogger(__name__)

# Between two calculations of a namespace: kubectl, controllers and tests write in bursts.
REST_S: Final = 1.0
# Large namespaces take long to count. Other tasks get the processor 20 times as long.
REST_FACTOR: Final = 20
# What was admitted before this is written by now, and counts itself.
SETTLE_S: Final = 0.1
# Some usage ends without any change, and some changes may be missed. kube-controller-manager: 5 minutes.
RESYNC_S: Final = 300.0
BACKOFF: Final = Backoff(base_s=5.0, max_s=RESYNC_S)
_VERBS: Final = frozenset({"create", "list", "delete"})


class ResourceQuotaController:
    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        brand: Brand,
        offload: Offload,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """clock: seconds since 1970."""
        self._registry = registry
        self._served = served
        self._brand = brand
        self._offload = offload
        self._clock = clock
        # The names that each quota limits, by namespace and quota.
        self._limits: dict[str, dict[str, frozenset[str]]] = {}
        self._informed: set[str] = set()  # the prefixes of resources that some quota counts
        # By namespace: the calculations that wait until what was admitted before them is written.
        self._begun: dict[str, list[UsageCalculation]] = {}
        # Of namespaces.
        self.queue: WorkQueue[str] = WorkQueue("resourcequota_primary", BACKOFF)

    async def run(self) -> None:
        """Calculate usage until cancelled."""
        prefix = self._registry.prefix_of(self._served.require("", "resourcequotas"))
        async with asyncio.TaskGroup() as tasks:
            informer = Informer(
                ListWatch(self._registry.cache, prefix),
                lambda notification: self._on_quota(tasks, notification),
                wait_for_room=self.queue.wait_for_room,
            )
            tasks.create_task(self._resync(tasks))
            controller = Controller(
                self.queue, self._reconcile, informers=[informer], failure_cooldown_s=BACKOFF.base_s
            )
            await controller.run()

    # ---- when to measure

    async def _on_quota(self, tasks: asyncio.TaskGroup, notification: Notification) -> None:
        namespace, name, new = notification.namespace, notification.name, notification.new
        names = await self._offload.read(new, _limited) if new is not None else frozenset()
        quotas = self._limits.setdefault(namespace, {})
        if new is None:
            quotas.pop(name, None)
            if not quotas:
                del self._limits[namespace]
            return
        if quotas.get(name) != names:
            quotas[name] = names
            self._inform_about(tasks, names)
        # The client that wrote it may have written something into its status.
        self.queue.add(namespace)

    def _inform_about(self, tasks: asyncio.TaskGroup, names: frozenset[str]) -> None:
        """Run informers for the resources that quotas with such limits count."""
        for evaluator, prefix in self._evaluators():
            if prefix not in self._informed and any(map(evaluator.measures, names)):
                self._informed.add(prefix)
                informer = Informer(
                    ListWatch(self._registry.cache, prefix, lists=False),
                    self._handler_of(evaluator),
                    wait_for_room=self.queue.wait_for_room,
                )
                tasks.create_task(informer.run())

    def _handler_of(self, evaluator: QuotaEvaluator) -> Callable[[Notification], None]:
        def on_object(notification: Notification) -> None:
            namespace = notification.namespace
            if namespace in self.queue:
                return
            if any(any(map(evaluator.measures, names)) for names in self._limits.get(namespace, {}).values()):
                self.queue.add(namespace)

        return on_object

    async def _resync(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await asyncio.sleep(RESYNC_S)
            for namespace, quotas in self._limits.items():
                self.queue.add(namespace)
                for names in quotas.values():  # Types may have come since.
                    self._inform_about(tasks, names)

    # ---- measuring

    async def _reconcile(self, namespace: str) -> Outcome:
        calculations = self._begun.pop(namespace, None)
        if calculations is None:
            begun = await self._begin(namespace)
            # Nothing can have been admitted to what has no limits yet.
            calculations = [each for each in begun if not each.has_limits]
            if waiting := [each for each in begun if each.has_limits]:
                self._begun[namespace] = waiting
        if calculations:
            try:
                await self._finish(namespace, calculations)
            except Exception:
                # All quotas of the namespace are calculated anew, those that waited and those that did not.
                self._begun.pop(namespace, None)
                raise
        if namespace in self._begun:
            return Requeue(after_s=SETTLE_S, cooldown_s=SETTLE_S)
        return Cooldown(REST_S)

    async def _begin(self, namespace: str) -> list[UsageCalculation]:
        prefix = self._registry.prefix_of(self._served.require("", "resourcequotas"))
        listing = await self._registry.cache.list(prefix_range(f"{prefix}{namespace}/"), ANY)
        begun = []
        async for version in in_turns(listing.versions):
            if version.value is not None and version.value.head:
                document = await self._offload.document(version.value)
                try:
                    begun.append(UsageCalculation(document))
                except Exception as error:  # The API makes no such quota; it must not hold up the others.
                    log.warning("%s is malformed: %s: %s", version.key, type(error).__name__, error)
        return begun

    async def _finish(self, namespace: str, calculations: Sequence[UsageCalculation]) -> None:
        """Count, and write each status that has changed. Raises ApiError, and the storage's errors."""
        began = time.monotonic()
        for evaluator, prefix in self._evaluators():
            if asking := [(each, names) for each in calculations if (names := each.begin(evaluator))]:
                await self._count(evaluator, f"{prefix}{namespace}/", asking)
        rest_s = (time.monotonic() - began) * REST_FACTOR
        for each in calculations:
            if (status := each.status()) is None:
                continue
            try:
                await self._write(namespace, each.quota, status)
            except Conflict:
                self.queue.add(namespace)
            except NotFound:
                pass  # It is gone.
        await asyncio.sleep(rest_s)

    async def _count(
        self, evaluator: QuotaEvaluator, folder: str, asking: Sequence[tuple[UsageCalculation, list[str]]]
    ) -> None:
        versions = (await self._registry.cache.list(prefix_range(folder))).versions
        closely = []
        for calculation, names in asking:
            if evaluator.only_counts(names) and not calculation.has_scopes:
                calculation.add_objects(len(versions), names)
            else:
                closely.append((calculation, names))
        if not closely:
            return
        now = self._clock()

        unreadable, why = 0, ""

        def measured(found: StoredObject) -> tuple[Usage, list[bool]] | None:
            nonlocal unreadable, why
            try:
                document = found.document()
                in_scope = [evaluator.is_in_scope(each.quota, document) for each, _ in closely]
                return evaluator.usage(document, now), in_scope
            except Exception as error:  # Damaged or malformed, it must not hold up the others.
                unreadable, why = unreadable + 1, f"{found.key}: {type(error).__name__}: {error}"
                return None

        async for version in in_turns(versions):
            assert version.value is not None
            size = size_class(len(version.value.tail))
            found = await self._offload.run_begun(size, measured, version.value)
            if found is None:
                continue
            usage, in_scope = found
            for (calculation, names), is_in_scope in zip(closely, in_scope, strict=True):
                if is_in_scope:
                    calculation.add(usage, names)
        if unreadable:
            log.warning(
                "cannot read %d objects in %s; the quotas still count the last known usage of these "
                "objects: %s",
                unreadable,
                folder,
                why,
            )
            for calculation, names in closely:
                calculation.add_unreadable(unreadable, evaluator, names)

    async def _write(self, namespace: str, quota: Document, status: Document) -> None:
        """Write the status of a quota."""
        resource, meta = self._served.require("", "resourcequotas"), quota["metadata"]

        def with_status(found: StoredObject) -> ProposedObject:
            document = found.document()
            document["metadata"]["resourceVersion"] = meta["resourceVersion"]
            return ProposedObject({**document, "status": {**status}})

        request = WriteRequest(
            resource=resource,
            namespace=namespace,
            name=meta["name"],
            update=resource.subresources["status"].update,
            writer=KUBE_CONTROLLER_MANAGER.at("status"),
        )
        await self._registry.update(request, with_status)

    # ---- what is served

    def _evaluators(self) -> list[tuple[QuotaEvaluator, str]]:
        """Returns an evaluator for each resource that can be counted, and the prefix of its keys."""
        left_out = resources_without_quota(self._brand)
        by_name = {
            each.stored_group_resource: each
            for each in self._served.current.resources
            if each.is_namespaced
            and set(each.verbs) >= _VERBS
            and not each.is_virtual
            and each.stored_group_resource not in left_out
        }
        return [
            (QuotaEvaluator(name, self._brand), self._registry.prefix_of(resource))
            for name, resource in by_name.items()
        ]


def _limited(quota: Document) -> frozenset[str]:
    """Returns the names that a quota limits."""
    return frozenset((quota.get("spec") or {}).get("hard") or ())
