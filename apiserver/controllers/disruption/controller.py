"""Updates the budgets of a namespace when they, its pods or the owners of these change."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from apiserver.controller_runtime.controller import Controller, Cooldown, Outcome, Requeue
from apiserver.controller_runtime.informer import Informer, ListWatch, Notification, resource_informer
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.disruption.budgets import (
    BudgetedPod,
    expectation,
    failed_status,
    needs_scale,
    status,
    still_disrupted,
)
from apiserver.controllers.disruption.scales import WATCHED, NoScale, Scales
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.meta import timestamps
from apiserver.meta.errors import ApiError, Conflict, NotFound
from apiserver.meta.selectors import TooManyTerms, label_selector_of
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, WriteRequest
from apiserver.schema.validation.label_selectors import selects
from apiserver.storage.errors import StorageError
from apiserver.storage.event_loop_turns import in_turns
from apiserver.storage.interface import ANY
from apiserver.storage.keys import prefix_range

log = logging.getLogger(__name__)

GROUP: Final = "policy"
RESOURCE: Final = "poddisruptionbudgets"
BACKOFF: Final = Backoff(base_s=0.5, max_s=60.0)
# Namespaces that are looked at at the same time.
WORKERS: Final = 4
# The pods of a large namespace are looked at again after so much longer than a look took.
REST_FACTOR: Final = 20
# When a budget is checked again that depends on resources without an informer, as custom resources.
RESYNC_S: Final = 30.0
UNMANAGED: Final = (
    "Some pods that this budget selects are not counted, because no controller defines their number. "
    'To count them, set ".spec.minAvailable" to an integer.'
)


@dataclass(slots=True, eq=False, repr=False)
class _Budget:
    """A budget, and the pods that it selects.

    unreadable: the number of unreadable pods that it may select, and the key of one of them.
    """

    key: str
    document: Document
    is_selected: Callable[[StoredObject], bool]
    pods: list[BudgetedPod] = field(default_factory=list)
    unreadable: tuple[int, str] = (0, "")

    def add_unreadable(self, key: str) -> None:
        self.unreadable = (self.unreadable[0] + 1, key)


class DisruptionController:
    """The controller of PodDisruptionBudgets, whose keys are namespaces.

    clock: seconds since 1970.
    """

    def __init__(
        self, registry: Registry, served: ServedTable, events: EventRecorder, clock: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._served = served
        self._events = events
        self._clock = clock
        self._names: dict[str, set[str]] = {}  # of budgets, by namespace
        self._informers: list[Informer] = []
        self.queue: WorkQueue[str] = WorkQueue("disruption", BACKOFF)

    async def run(self) -> None:
        """Update budgets until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            writing_events = tasks.create_task(self._events.run())
            informer = resource_informer(
                self._registry,
                self._budgets(),
                lambda notification: self._on_budget(tasks, notification),
                reports_missed_deletions=True,
                queue=self.queue,
            )
            await Controller(self.queue, self._reconcile, workers=WORKERS, informers=[informer]).run()
            writing_events.cancel()

    # ---- when to look

    def _on_budget(self, tasks: asyncio.TaskGroup, notification: Notification) -> None:
        namespace = notification.namespace
        if notification.new is None:
            names = self._names.get(namespace, set())
            names.discard(notification.name)
            if not names:
                self._names.pop(namespace, None)
            return
        self._names.setdefault(namespace, set()).add(notification.name)
        if not self._informers:
            served = (self._served.hub(group, resource) for group, resource in WATCHED)
            self._informers = [self._informer_of(each) for each in served if each is not None]
            for each in self._informers:
                tasks.create_task(each.run())
        self.queue.add(namespace)

    def _informer_of(self, resource: ServedResource) -> Informer:
        return Informer(
            ListWatch(self._registry.cache, self._registry.prefix_of(resource), lists=False),
            self._on_other,
            wait_for_room=self.queue.wait_for_room,
        )

    def _on_other(self, notification: Notification) -> None:
        if notification.namespace in self._names:
            self.queue.add(notification.namespace)

    # ---- looking

    async def _reconcile(self, namespace: str) -> Outcome:
        for informer in self._informers:
            await informer.has_synced.wait()  # What changes after this is heard of.
        began = time.monotonic()
        malformed: list[str] = []
        budgets = await self._budgets_of(namespace, malformed)
        if not (budgets or malformed):
            return None
        await self._find_pods(namespace, budgets)
        scales = Scales(self._registry, self._served, namespace)
        waits = []
        for each in budgets:
            with _noting(malformed, each.key):
                again_s = await self._update(namespace, each, scales)
                waits += [again_s] if again_s is not None else []
        rest_s = (time.monotonic() - began) * REST_FACTOR
        if malformed:
            return Requeue(None, rest_s)  # Others are looked at more often than they need.
        return Requeue(min(waits), rest_s) if waits else Cooldown(rest_s)

    async def _budgets_of(self, namespace: str, malformed: list[str]) -> list[_Budget]:
        """Returns the budgets of a namespace."""
        prefix = self._registry.prefix_of(self._budgets())
        listing = await self._registry.cache.list(prefix_range(f"{prefix}{namespace}/"), ANY)
        found = []
        async for version in in_turns(listing.versions):
            if version.value is not None and version.value.head:
                with _noting(malformed, version.key):
                    document = await self._registry.offload.document(version.value)
                    found.append(_Budget(version.key, document, _selection(document)))
        return found

    async def _find_pods(self, namespace: str, budgets: Sequence[_Budget]) -> None:
        pods = self._served.require("", "pods")
        folder = prefix_range(f"{self._registry.prefix_of(pods)}{namespace}/")
        async for version in in_turns((await self._registry.cache.list(folder, ANY)).versions):
            found = version.value
            assert found is not None
            if not found.head:  # Its labels are unknown, and it does not count as ready.
                for each in budgets:
                    each.add_unreadable(version.key)
                continue
            selecting = [each for each in budgets if each.is_selected(found)]
            if not selecting:
                continue
            pod = await self._pod_of(found)
            for each in selecting:
                if pod is None:
                    each.add_unreadable(version.key)
                each.pods.append(pod or _unready(found))

    async def _pod_of(self, found: StoredObject) -> BudgetedPod | None:
        """Returns the relevant properties of a pod; None if it is malformed."""
        try:
            return await self._registry.offload.read(found, BudgetedPod.of)
        except Exception as error:
            log.warning("%s is malformed: %s: %s", found.key, type(error).__name__, error)
            return None

    async def _update(self, namespace: str, budget: _Budget, scales: Scales) -> float | None:
        """Write the status if it has changed; returns in how many seconds to check again, if at all."""
        document, pods, now = budget.document, budget.pods, self._clock()
        again_s = None
        if not pods:
            self._tell(document, "NoPods", "No matching pods found")
        try:
            scale = await self._scale(budget, scales) if needs_scale(document) else 0
            disrupted = still_disrupted(document, pods, now)
            again_s = disrupted.next_end_s
            if scales.has_asked_others:
                again_s = min(RESYNC_S, again_s or RESYNC_S)
            expected = expectation(document, len(pods), scale)
            wanted = status(document, pods, expected, disrupted, timestamps.to_text(now))
        except NoScale as why:
            wanted, again_s = failed_status(document, str(why), timestamps.to_text(now)), RESYNC_S
            message = f"Failed to calculate the number of expected pods: {why}"
            self._tell(document, "CalculateExpectedPodCountFailed", message, is_wrong=True)
        except StorageError:
            raise
        except Exception as error:
            # It, or an owner of its pods, is damaged or malformed, which `_reconcile` notes. What was allowed
            # when it could be judged may be too much.
            failed = failed_status(document, f"{error}", timestamps.to_text(now))
            await self._write(namespace, document, failed)
            raise
        await self._write(namespace, document, wanted)
        return again_s

    async def _scale(self, budget: _Budget, scales: Scales) -> int:
        """Returns the desired number of pods of the owners of a budget's pods.

        Raises NoScale, and the errors of `Scales`.
        """
        count, key = budget.unreadable
        if count:
            # With the replicas of their owners there may be more pods that have to be healthy.
            raise NoScale(f"{count} pods cannot be read, including {key}")
        scale = await scales.expected(budget.pods)
        if any(pod.owner is None for pod in budget.pods):
            self._tell(budget.document, "UnmanagedPods", UNMANAGED, is_wrong=True)
        return scale

    def _tell(self, budget: Document, reason: str, message: str, *, is_wrong: bool = False) -> None:
        meta = budget["metadata"]
        tell = self._events.warn if is_wrong else self._events.tell
        tell(self._budgets(), meta["namespace"], meta["name"], meta["uid"], reason=reason, message=message)

    async def _write(self, namespace: str, budget: Document, wanted: Document) -> None:
        if wanted == budget.get("status"):
            return
        resource, meta = self._budgets(), budget["metadata"]

        def with_status(found: StoredObject) -> ProposedObject:
            document = found.document()
            document["metadata"]["resourceVersion"] = meta["resourceVersion"]
            return ProposedObject({**document, "status": wanted})

        rules = resource.subresources["status"].update
        request = WriteRequest(
            resource=resource,
            namespace=namespace,
            name=meta["name"],
            update=rules,
            writer=KUBE_CONTROLLER_MANAGER.at("status"),
        )
        try:
            await self._registry.update(request, with_status)
        except Conflict:
            self.queue.add(namespace)  # An eviction was counted, or the budget is another one.
        except NotFound:
            pass
        except ApiError as error:
            log.warning("cannot update disruption budget %s/%s: %s", namespace, meta["name"], error)

    def _budgets(self) -> ServedResource:
        return self._served.require(GROUP, RESOURCE)


@contextmanager
def _noting(malformed: list[str], key: str) -> Iterator[None]:
    """Log and note a malformed object, which only other programs can store, and continue with the others."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        log.warning("%s is malformed: %s: %s", key, type(error).__name__, error)
        malformed.append(key)


def _unready(found: StoredObject) -> BudgetedPod:
    """Returns a pod that exists but does not count as ready."""
    return BudgetedPod(found.key.rpartition("/")[2], is_ready=False, is_deleted=False, owner=None)


def _selection(budget: Document) -> Callable[[StoredObject], bool]:
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return lambda pod: False
    try:
        test = label_selector_of(selector).conditions.test()
    except TooManyTerms:
        return lambda pod: selects(selector, pod.labels())
    return lambda pod: test(pod.labels())
