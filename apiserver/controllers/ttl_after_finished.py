"""Deletes finished Jobs with their dependents after their TTL.

The TTL starts at the transition of the finishing condition. As that time is in the Job, a new leader, or a
restarted server, continues where another has stopped. Exactly the checked version of the Job is deleted, so
that a Job whose TTL was just prolonged is not lost.
Source: kubernetes, pkg/controller/ttlafterfinished.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.controller_runtime.controller import Controller, Outcome, Requeue
from apiserver.controller_runtime.informer import Notification, resource_informer
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.meta import timestamps
from apiserver.meta.errors import Conflict, NotFound
from apiserver.meta.options import DeleteOptions
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.storage.interface import ANY

GROUP: Final = "batch"
RESOURCE: Final = "jobs"
BACKOFF: Final = Backoff(base_s=0.1, max_s=60.0)
# kube-controller-manager: --concurrent-ttl-after-finished-syncs.
WORKERS: Final = 5
# A timer of the event loop takes no time that is further away; it is looked at again then.
WAIT_S_MAX: Final = 86_400.0
_MARK: Final = b'"ttlSecondsAfterFinished"'

Key = tuple[str, str]  # namespace and name


class TtlAfterFinished:
    """The controller that deletes finished Jobs after their TTL. clock: seconds since 1970."""

    def __init__(self, registry: Registry, served: ServedTable, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._served = served
        self._clock = clock
        self.queue: WorkQueue[Key] = WorkQueue("ttl_jobs_to_delete", BACKOFF)

    async def run(self) -> None:
        """Delete Jobs until cancelled."""
        informer = resource_informer(
            self._registry, self._served.require(GROUP, RESOURCE), self._on_job, queue=self.queue
        )
        await Controller(self.queue, self._reconcile, workers=WORKERS, informers=[informer]).run()

    async def _on_job(self, notification: Notification) -> None:
        found, key = notification.new, (notification.namespace, notification.name)
        left_s: float | None = None
        if found is not None and _MARK in found.tail:
            now = self._clock()
            left_s = await self._registry.offload.read(found, lambda job: time_left_s(job, now))
        if left_s is None:
            self.queue.cancel(key)
        else:
            self.queue.add_after(key, min(left_s, WAIT_S_MAX))

    async def _reconcile(self, key: Key) -> Outcome:
        jobs, (namespace, name) = self._served.require(GROUP, RESOURCE), key
        try:
            found, now = await self._registry.get(jobs, namespace, name, ANY), self._clock()
            left_s, uid = await self._registry.offload.read(
                found, lambda job: (time_left_s(job, now), job["metadata"]["uid"])
            )
            if left_s is None:
                return None
            if left_s > 0:
                return Requeue(after_s=min(left_s, WAIT_S_MAX))
            options = DeleteOptions(
                uid=uid, resource_version=found.resource_version, propagation="Foreground"
            )
            await self._registry.delete(DeleteRequest(jobs, namespace, name, options))
        except NotFound:
            pass
        except Conflict:  # It is another one by now, or its time to live is.
            return Requeue()
        return None


def time_left_s(job: Document, now: float) -> float | None:
    """Returns in how many seconds a Job has to be deleted, at most 0 for now; None for never.

    now: seconds since 1970.
    """
    ttl_s = (job.get("spec") or {}).get("ttlSecondsAfterFinished")
    if ttl_s is None or "deletionTimestamp" in job["metadata"]:
        return None
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            finished = timestamps.from_text(condition.get("lastTransitionTime") or "")
            return None if finished is None else float(finished + ttl_s - now)
    return None
