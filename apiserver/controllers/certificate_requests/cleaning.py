"""Deletes certificate requests that are no longer needed: answered, refused, or abandoned ones.

Source: kubernetes, pkg/controller/certificates/cleaner.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Final

from apiserver.controller_runtime.controller import Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.certificate_requests.requests import (
    APPROVED,
    DENIED,
    FAILED,
    CertificateRequests,
    status_of,
)
from apiserver.meta import timestamps
from apiserver.meta.errors import Conflict, NotFound
from apiserver.meta.options import DeleteOptions
from apiserver.meta.vocabulary import Document
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.store import Registry

DECIDED_S: Final = 3_600
PENDING_S: Final = 24 * 3_600
# A timer of the event loop takes no time that is further away; it is looked at again then.
WAIT_S_MAX: Final = 86_400.0
BACKOFF: Final = Backoff(base_s=1.0, max_s=300.0)


class CertificateCleaning:
    """The controller that deletes old certificate requests. clock: seconds since 1970."""

    def __init__(self, registry: Registry, requests: CertificateRequests, clock: Callable[[], float]) -> None:
        self._registry, self._requests, self._clock = registry, requests, clock
        self.queue: WorkQueue[str] = WorkQueue("csrcleaner", BACKOFF)

    async def run(self) -> None:
        """Delete requests until cancelled."""
        await self._requests.run(self.queue, self._reconcile)

    async def _reconcile(self, name: str) -> Outcome:
        request = await self._requests.get(name)
        if request is None:
            return None
        # In a thread, which also imports what reads certificates.
        left_s = await asyncio.to_thread(time_left_s, request, self._clock())
        if left_s is None:
            return None
        if left_s > 0:
            return Requeue(after_s=min(left_s, WAIT_S_MAX))
        meta = request["metadata"]
        options = DeleteOptions(uid=meta["uid"], resource_version=meta["resourceVersion"])
        try:
            await self._registry.delete(DeleteRequest(self._requests.resource, "", name, options))
        except NotFound:
            pass
        except Conflict:
            return Requeue()
        return None


def time_left_s(request: Document, now: float) -> float | None:
    """Returns in how many seconds a request has to be deleted, at most 0 for now; None for never.

    now: seconds since 1970.
    """
    if "deletionTimestamp" in request["metadata"]:
        return None
    return min((at - now for at in _ends(request)), default=None)


def _ends(request: Document) -> Iterator[float]:
    """Yields when a request is no longer needed, for each reason."""
    status = status_of(request)
    found = status.get("conditions") or ()
    if not found:
        created = timestamps.from_text(request["metadata"].get("creationTimestamp") or "")
        if created is not None:
            yield created + PENDING_S
    certificate = status.get("certificate")
    for condition in found:
        kind = condition.get("type")
        updated = timestamps.from_text(condition.get("lastUpdateTime") or "")
        if updated is not None and (kind in (DENIED, FAILED) or (kind == APPROVED and certificate)):
            yield updated + DECIDED_S
        if kind == APPROVED and certificate and (expires_at := _expiry(certificate)) is not None:
            yield expires_at


def _expiry(certificate: str) -> float | None:
    """Returns when a certificate expires; None if it cannot be read."""
    from apiserver.golang.x509_parsing import UNREADABLE, parse_pem_certificate

    try:
        # The year 0, which a certificate can have, is a ValueError.
        return parse_pem_certificate(base64.b64decode(certificate)).not_valid_after_utc.timestamp()
    except (*UNREADABLE, binascii.Error):
        return None
