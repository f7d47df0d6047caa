"""Reports ended workers of extensions by Events about the Service `default/kubernetes`.

    kubectl get events
    LAST SEEN   TYPE      REASON                 OBJECT               MESSAGE
    3s          Warning   ExtensionWorkerEnded   service/kubernetes   the worker of extension shop has ended …

A worker can end again and again: after the first `BURST` Events, an extension has one every `INTERVAL_S`. The
message says how often its workers have ended.
Source of the idea: k8s.io/client-go, tools/record/events_cache.go, EventSourceObjectSpamFilter.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from apiserver.controllers.event_recorder import EventRecorder
from apiserver.controllers.kubernetes_service import NAME, NAMESPACE
from apiserver.extensions.host.runner import WorkerEnd
from apiserver.meta.errors import ApiError
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.storage.errors import StorageError

ENDED: Final = "ExtensionWorkerEnded"
# As kubelet's Events for containers that are not started at once.
BACK_OFF: Final = "BackOff"
BURST: Final = 10
INTERVAL_S: Final = 300.0
# Ends that wait to be reported; more are only counted.
WAITING_MAX: Final = 100


class ExtensionEvents:
    """Writes the Events. clock: seconds, not necessarily since 1970."""

    def __init__(
        self, registry: Registry, served: ServedTable, events: EventRecorder, clock: Callable[[], float]
    ) -> None:
        self._registry, self._served, self._events, self._clock = registry, served, events, clock
        self._ends: Counter[str] = Counter()
        self._limits: dict[str, _EventLimit] = {}
        # Reasons and messages.
        self._waiting: asyncio.Queue[tuple[str, str]] = asyncio.Queue(WAITING_MAX)

    def worker_ended(self, extension: str, end: WorkerEnd) -> None:
        """Report the end of a worker later, unless there have been too many Events."""
        self._ends[extension] += 1
        limit = self._limits.setdefault(extension, _EventLimit())
        if self._waiting.full() or not limit.allows(self._clock()):
            return
        count = self._ends[extension]
        times, then = "once" if count == 1 else f"{count} times", "now"
        if end.delay_s:
            then = f"in {end.delay_s:.3g} s"
        message = (
            f"the worker of extension {extension} has ended {times}, the next one starts {then}: {end.reason}"
        )
        self._waiting.put_nowait((BACK_OFF if end.delay_s else ENDED, message))

    async def run(self) -> None:
        """Write Events until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            while True:
                await self._report(*await self._waiting.get())

    async def _report(self, reason: str, message: str) -> None:
        services = self._served.find("", "v1", "services")
        if services is None:
            return
        try:
            found = await self._registry.get(services, NAMESPACE, NAME)
            uid = await self._registry.offload.read(found, _uid)
        except (ApiError, StorageError):
            uid = ""
        self._events.warn(services, NAMESPACE, NAME, uid, reason=reason, message=message)


class _EventLimit:
    """How many Events an extension may have: `BURST` at once, and one more every `INTERVAL_S`."""

    def __init__(self) -> None:
        self._left, self._at = float(BURST), 0.0

    def allows(self, now: float) -> bool:
        """Take one Event, if there can be one."""
        self._left = min(BURST, self._left + (now - self._at) / INTERVAL_S) if self._at else self._left
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _uid(document: Document) -> str:
    return str(document["metadata"].get("uid") or "")
