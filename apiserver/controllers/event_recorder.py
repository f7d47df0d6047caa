"""Writes the Events by which controllers report to users.

An Event is less important than its subject: it is written later, in the background, and lost if there are too
many, if the server stops, or if it cannot be written.
Source of the idea: k8s.io/client-go, tools/record.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from apiserver.meta import timestamps
from apiserver.meta.errors import ApiError
from apiserver.meta.vocabulary import Document
from apiserver.registry.guard import TransactionGuard
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.write_request import (
    KUBE_CONTROLLER_MANAGER,
    InternalWriter,
    ProposedObject,
    WriteRequest,
)
from apiserver.storage.errors import StorageError

log = logging.getLogger(__name__)

# Events that wait to be written; more are dropped.
WAITING_MAX: Final = 1_000
# How many objects are remembered, whose last Event is not repeated.
TOLD_MAX: Final = 4_096
# Longer messages are cut. kube-apiserver's own limit for Events of the newer kind.
MESSAGE_LENGTH_MAX: Final = 1_024
# Objects without a namespace have theirs here.
_NAMESPACE_OF_CLUSTER: Final = "default"
# The uid of the object, the reason and the message.
_Told = tuple[str, str, str]
# Returns what must still hold when an object is created in a namespace; raises NotFound, Forbidden.
MayCreate = Callable[[ServedResource, str, str], Awaitable[TransactionGuard | None]]


class EventRecorder:
    """Writes Events of one component.

    may_create: whether a namespace accepts new objects. clock: seconds since 1970.
    writer: the program that the component is part of.
    """

    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        may_create: MayCreate,
        clock: Callable[[], float],
        *,
        component: str,
        writer: InternalWriter = KUBE_CONTROLLER_MANAGER,
    ) -> None:
        self._registry = registry
        self._served = served
        self._may_create = may_create
        self._clock = clock
        self._component = component
        self._writer = writer
        self._waiting: asyncio.Queue[tuple[_Told, str, Document]] = asyncio.Queue(WAITING_MAX)
        # What has been written, or waits to be.
        self._told: OrderedDict[_Told, None] = OrderedDict()

    def warn(
        self, resource: ServedResource, namespace: str, name: str, uid: str, *, reason: str, message: str
    ) -> None:
        """Write a warning about an object later, unless it repeats the last one."""
        self._record(resource, namespace, name, uid, ("Warning", reason, message))

    def tell(
        self, resource: ServedResource, namespace: str, name: str, uid: str, *, reason: str, message: str
    ) -> None:
        """Write a normal Event about an object later, unless it repeats the last one."""
        self._record(resource, namespace, name, uid, ("Normal", reason, message))

    def _record(
        self, resource: ServedResource, namespace: str, name: str, uid: str, content: tuple[str, str, str]
    ) -> None:
        """Queue an Event."""
        kind, reason, message = content
        what = (uid, reason, message)
        if what in self._told or self._waiting.full():
            return
        self._told[what] = None
        if len(self._told) > TOLD_MAX:
            self._told.popitem(last=False)
        involved = {"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": uid}
        if namespace:
            involved["namespace"] = namespace
        now = timestamps.to_text(self._clock())
        document = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{secrets.token_hex(8)}"},
            "involvedObject": involved,
            "reason": reason,
            "message": message[:MESSAGE_LENGTH_MAX],
            "source": {"component": self._component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": kind,
            "eventTime": None,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        self._waiting.put_nowait((what, namespace or _NAMESPACE_OF_CLUSTER, document))

    async def run(self) -> None:
        """Write Events until cancelled."""
        while True:
            what, namespace, document = await self._waiting.get()
            try:
                await self._write(namespace, document)
            except (ApiError, StorageError) as error:
                log.info("cannot write an event for %s: %s", self._component, error)
                self._told.pop(what, None)  # The same finding may be reported again.
            except Exception:  # It must not stop the controller.
                log.exception("cannot write an event for %s", self._component)

    async def _write(self, namespace: str, document: Document) -> None:
        events = self._served.find("", "v1", "events")
        if events is None:
            return
        guard = await self._may_create(events, namespace, document["metadata"]["name"])
        request = WriteRequest(
            resource=events,
            namespace=namespace,
            name=document["metadata"]["name"],
            guard=guard,
            writer=self._writer,
        )
        await self._registry.create(request, ProposedObject(document))
