"""Reads and writes CertificateSigningRequests for their controllers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from apiserver.controller_runtime.controller import Controller, Outcome
from apiserver.controller_runtime.informer import Notification, resource_informer
from apiserver.controller_runtime.work_queue import WorkQueue
from apiserver.meta.errors import Conflict, NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_CONTROLLER_MANAGER, ProposedObject, WriteRequest
from apiserver.storage.interface import ANY

RESOURCE: Final = "certificatesigningrequests"
APPROVED: Final = "Approved"
DENIED: Final = "Denied"
FAILED: Final = "Failed"


class UnusableAuthority(Exception):
    """The CA cannot sign, for the reason in the message, which is not the requestor's fault."""


class CertificateRequests:
    """The certificate requests of one server. group: of the API."""

    def __init__(self, registry: Registry, served: ServedTable, group: str) -> None:
        self._registry, self._served, self._group = registry, served, group

    @property
    def resource(self) -> ServedResource:
        return self._served.require(self._group, RESOURCE)

    async def run(
        self,
        queue: WorkQueue[str],
        reconcile: Callable[[str], Awaitable[Outcome]],
        *,
        mark: bytes = b"",
        workers: int = 1,
    ) -> None:
        """Run a controller until cancelled. mark: bytes that the JSON of relevant requests contains."""

        def on_request(notification: Notification) -> None:
            if notification.new is not None and mark in notification.new.tail:
                queue.add(notification.name)

        informer = resource_informer(self._registry, self.resource, on_request, queue=queue)
        await Controller(queue, reconcile, workers=workers, informers=[informer]).run()

    async def get(self, name: str) -> Document | None:
        """Returns a cached request; None if there is none."""
        try:
            found = await self._registry.get(self.resource, "", name, ANY)
        except NotFound:
            return None
        return await self._registry.offload.document(found)

    async def update(self, seen: Document, subresource: str, status: Document) -> bool:
        """Write the status of a request, unless it has changed; returns False if it has."""
        resource, meta = self.resource, seen["metadata"]

        def with_status(found: StoredObject) -> ProposedObject:
            document = found.document()
            document["metadata"]["resourceVersion"] = meta["resourceVersion"]
            return ProposedObject({**document, "status": status})

        rules = resource.subresources[subresource].update
        request = WriteRequest(
            resource=resource,
            namespace="",
            name=meta["name"],
            update=rules,
            writer=KUBE_CONTROLLER_MANAGER.at(subresource),
        )
        try:
            await self._registry.update(request, with_status)
        except (Conflict, NotFound):
            return False
        return True


def status_of(request: Document) -> Document:
    found: Document = request.get("status") or {}
    return found


def conditions(request: Document) -> Iterator[Document]:
    """Yields the conditions with the status True."""
    yield from (each for each in status_of(request).get("conditions") or () if each.get("status") == "True")


def has_condition(request: Document, *kinds: str) -> bool:
    return any(each.get("type") in kinds for each in conditions(request))


def with_condition(request: Document, kind: str, reason: str, message: str) -> Document:
    """Returns the status with a further condition, whose times are those of the write."""
    status = status_of(request)
    condition = {"type": kind, "status": "True", "reason": reason, "message": message}
    return {**status, "conditions": [*(status.get("conditions") or ()), condition]}


def request_pem(request: Document) -> bytes:
    """Returns the PEM of a request; empty if it cannot be decoded, as in old objects."""
    try:
        return base64.b64decode(request["spec"].get("request") or "")
    except (binascii.Error, TypeError, AttributeError):
        return b""
