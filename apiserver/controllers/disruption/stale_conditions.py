"""Removes the condition DisruptionTarget from pods that were not disrupted after all.

An eviction sets it before it deletes the pod. If that fails, or another client gives up the disruption, the
pod would be marked as about to end forever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.controller_runtime.controller import Controller, Outcome, Requeue
from apiserver.controller_runtime.informer import Informer, ListWatch, Notification
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.meta import timestamps
from apiserver.meta.conditions import find_condition, set_condition
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, WriteRequest
from apiserver.storage.interface import ANY

CONDITION: Final = "DisruptionTarget"
TIMEOUT_S: Final = 120.0
BACKOFF: Final = Backoff(base_s=0.5, max_s=60.0)
_MARK: Final = b'"DisruptionTarget"'
_BY_KUBELET: Final = "TerminationByKubelet"

Key = tuple[str, str]  # namespace and name


def stale_in_s(pod: Document, now: float) -> float | None:
    """Returns in how many seconds the condition is stale, at most 0 if it is; None if it will not be.

    now: seconds since 1970.
    """
    condition = find_condition(pod, CONDITION)
    if (
        condition is None
        or condition.get("status") != "True"
        or condition.get("reason") == _BY_KUBELET
        or "deletionTimestamp" in pod["metadata"]
        or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    ):
        return None
    return (timestamps.from_text(condition.get("lastTransitionTime") or "") or 0.0) + TIMEOUT_S - now


class StaleDisruptionConditions:
    """The controller that removes stale DisruptionTarget conditions. clock: seconds since 1970."""

    def __init__(self, registry: Registry, served: ServedTable, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._served = served
        self._clock = clock
        self.queue: WorkQueue[Key] = WorkQueue("stale_pod_disruption", BACKOFF)

    async def run(self) -> None:
        """Remove stale conditions of pods until cancelled."""
        source = ListWatch(
            self._registry.cache,
            self._registry.prefix_of(self._served.require("", "pods")),
            selects=lambda pod: _MARK in pod.tail,
        )
        informer = Informer(source, self._on_pod, wait_for_room=self.queue.wait_for_room)
        await Controller(self.queue, self._reconcile, informers=[informer]).run()

    def _on_pod(self, notification: Notification) -> None:
        key = (notification.namespace, notification.name)
        if notification.new is not None:
            self.queue.add(key)
        else:
            self.queue.cancel(key)

    async def _reconcile(self, key: Key) -> Outcome:
        pods, (namespace, name) = self._served.require("", "pods"), key
        try:
            pod, now = await self._registry.get(pods, namespace, name, ANY), self._clock()
            wait_s = await self._registry.offload.read(pod, lambda document: stale_in_s(document, now))
            if wait_s is None:
                return None
            if wait_s > 0:
                return Requeue(after_s=min(wait_s, TIMEOUT_S))
            request = WriteRequest(
                resource=pods,
                namespace=namespace,
                name=name,
                update=pods.subresources["status"].update,
                writer=KUBE_CONTROLLER_MANAGER.at("status"),
            )
            await self._registry.update(request, self._without_target)
        except NotFound:
            pass
        return None

    def _without_target(self, found: StoredObject) -> ProposedObject:
        document, now = found.document(), self._clock()
        wait_s = stale_in_s(document, now)
        if wait_s is not None and wait_s <= 0:
            set_condition(document, {"type": CONDITION, "status": "False"}, timestamps.to_text(now))
        return ProposedObject(document)
