"""Signs approved certificate requests.

Source: kubernetes, pkg/controller/certificates/signer.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from apiserver.catalogue.common.signer_names import KUBERNETES_SIGNERS, NotForSigner
from apiserver.controller_runtime.controller import Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.certificate_requests.requests import (
    APPROVED,
    DENIED,
    FAILED,
    CertificateRequests,
    UnusableAuthority,
    has_condition,
    request_pem,
    status_of,
    with_condition,
)
from apiserver.meta.vocabulary import Document

if TYPE_CHECKING:
    from apiserver.controllers.certificate_requests.issuing import Authority

log = logging.getLogger(__name__)

# As kube-controller-manager's.
BACKOFF: Final = Backoff(base_s=0.2, max_s=1_000.0)
WORKERS: Final = 5
# The bytes that every request to be signed contains.
_MARK: Final = b'"Approved"'


class CertificateSigning:
    """Signs for Kubernetes' own signers.

    authority: returns the CA that signs, or raises OSError or UnusableAuthority; called in a thread.
    longest: the validity of certificates for which no shorter one is requested.
    clock: seconds since 1970.
    """

    def __init__(
        self,
        requests: CertificateRequests,
        authority: Callable[[], Authority],
        longest: timedelta,
        clock: Callable[[], float],
    ) -> None:
        self._requests, self._authority = requests, authority
        self._longest, self._clock = longest, clock
        self.queue: WorkQueue[str] = WorkQueue("csrsigning", BACKOFF)

    async def run(self) -> None:
        """Sign requests until cancelled."""
        await self._requests.run(self.queue, self._reconcile, mark=_MARK, workers=WORKERS)

    async def _reconcile(self, name: str) -> Outcome:
        request = await self._requests.get(name)
        if request is None or not is_to_be_signed(request):
            return None
        try:
            certificate = await asyncio.to_thread(self._sign, request)
        except NotForSigner as error:
            status = with_condition(request, FAILED, "SignerValidationFailure", str(error))
        except (OSError, UnusableAuthority) as error:
            log.error("cannot sign certificate requests: %s", error)
            return Requeue()
        else:
            status = {**status_of(request), "certificate": base64.b64encode(certificate).decode()}
        return None if await self._requests.update(request, "status", status) else Requeue()

    def _sign(self, request: Document) -> bytes:
        """Sign a request."""
        from apiserver.catalogue.certificates.signers import SIGNERS, read_request
        from apiserver.controllers.certificate_requests.issuing import duration_of, now_utc

        spec = request["spec"]
        usages = spec.get("usages") or ()
        asked = read_request(request_pem(request))
        SIGNERS[spec["signerName"]](asked, usages)
        duration = duration_of(spec.get("expirationSeconds"), self._longest)
        return self._authority().issue(asked, usages, duration, now_utc(self._clock()))


def is_to_be_signed(request: Document) -> bool:
    return (
        request["spec"].get("signerName") in KUBERNETES_SIGNERS
        and not status_of(request).get("certificate")
        and has_condition(request, APPROVED)
        and not has_condition(request, DENIED, FAILED)
    )
