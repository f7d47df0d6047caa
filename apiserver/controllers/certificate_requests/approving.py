"""Approves the client certificates that kubelets request, if they have permission.

There are two permissions: to get a certificate for the requesting node (`selfnodeclient`), for kubelets that
renew theirs, and to get one for any node (`nodeclient`), for those that join with a bootstrap token. Source:
kubernetes, pkg/controller/certificates/approver.
"""

from __future__ import annotations

import asyncio
from typing import Final

from apiserver.auth.authz.attributes import ANY_VERSION, Attributes, Authorizer, is_allowed
from apiserver.catalogue.common.signer_names import KUBELET_CLIENT, NotForSigner
from apiserver.controller_runtime.controller import Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.certificate_requests.requests import (
    APPROVED,
    DENIED,
    RESOURCE,
    CertificateRequests,
    request_pem,
    status_of,
    with_condition,
)
from apiserver.meta.vocabulary import Document, UserInfo

BACKOFF: Final = Backoff(base_s=0.2, max_s=1_000.0)
WORKERS: Final = 5
_MARK: Final = KUBELET_CLIENT.encode()
# The permissions, each with the message of an approval by it.
_SELF: Final = ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
_ANY: Final = ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")


class CertificateApproving:
    """The controller that approves client certificates of kubelets.

    authorize: decides whether the requestor of a certificate has a permission. group: that of the API.
    """

    def __init__(self, requests: CertificateRequests, authorize: Authorizer, group: str) -> None:
        self._requests, self._authorize, self._group = requests, authorize, group
        self.queue: WorkQueue[str] = WorkQueue("csrapproving", BACKOFF)

    async def run(self) -> None:
        """Approve requests until cancelled."""
        await self._requests.run(self.queue, self._reconcile, mark=_MARK, workers=WORKERS)

    async def _reconcile(self, name: str) -> Outcome:
        request = await self._requests.get(name)
        if request is None or is_decided(request):
            return None
        permissions = await asyncio.to_thread(permissions_for, request)
        for subresource, message in permissions:
            if await self._may(request, subresource):
                status = with_condition(request, APPROVED, "AutoApproved", message)
                return None if await self._requests.update(request, "approval", status) else Requeue()
        # The permission may be given later.
        return Requeue() if permissions else None

    async def _may(self, request: Document, subresource: str) -> bool:
        asked = Attributes(
            asker(request),
            "create",
            group=self._group,
            resource=RESOURCE,
            subresource=subresource,
            version=ANY_VERSION,
        )
        return await is_allowed(self._authorize, asked)


def is_decided(request: Document) -> bool:
    """Returns whether a request was approved or denied, whatever the condition's status."""
    status = status_of(request)
    kinds = {each.get("type") for each in status.get("conditions") or ()}
    return bool(status.get("certificate") or kinds & {APPROVED, DENIED})


def permissions_for(request: Document) -> list[tuple[str, str]]:
    """Returns the permissions one of which is enough, each with its message; none if the request does not
    qualify.
    """
    spec = request["spec"]
    if spec.get("signerName") != KUBELET_CLIENT:
        return []
    from apiserver.catalogue.certificates.signers import check_kubelet_client, common_name, read_request

    try:
        asked = read_request(request_pem(request))
        check_kubelet_client(asked, spec.get("usages") or ())
    except NotForSigner:
        return []
    return [_SELF, _ANY] if spec.get("username") == common_name(asked) else [_ANY]


def asker(request: Document) -> UserInfo:
    spec = request["spec"]
    extra = tuple((key, tuple(values)) for key, values in sorted((spec.get("extra") or {}).items()))
    return UserInfo(spec.get("username") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)
