"""Checks permission to approve and sign certificate requests, and refuses requests for `system:masters`.

Source: kubernetes, plugin/pkg/admission/certificates.
"""

from __future__ import annotations

import base64
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, creates, updates, writes
from apiserver.admission.listers import refused
from apiserver.admission.plugins.privilege_escalation import is_only_gc_change
from apiserver.auth.authz.attributes import ANY_VERSION, Attributes, Authorizer, is_allowed
from apiserver.golang.pem import pem_blocks
from apiserver.meta.brand import Brand
from apiserver.meta.field_errors import quote
from apiserver.meta.vocabulary import SYSTEM_MASTERS, Document, GroupResource

_CLIENTS: Final = "kubernetes.io/kube-apiserver-client"


class SignerPlugin(Plugin):
    """Checks whether the caller may act for a signer, or for all signers of its domain."""

    verb = ""
    done = ""
    subresource = ""

    def __init__(self, authorize: Authorizer, brand: Brand) -> None:
        self._authorize = authorize
        self._group = brand.group("certificates")
        requests = GroupResource(self._group, "certificatesigningrequests")
        self.handled = updates(requests, subresource=self.subresource)

    def changes(self, new: Document, old: Document) -> bool:
        """Returns whether the write needs this permission."""
        return True

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if old is None or not self.changes(new, old):
            return
        # The name in the new object is not what will be stored.
        signer = old["spec"].get("signerName", "")
        if not await self.may_for(attributes, signer):
            raise refused(
                attributes, new, f"user not permitted to {self.verb} requests with signerName {quote(signer)}"
            )

    async def may_for(self, attributes: AdmissionAttributes, signer: str) -> bool:
        """Returns whether the caller may act for a signer, or for its whole domain."""
        asked = Attributes(
            attributes.user, self.verb, group=self._group, resource="signers", version=ANY_VERSION
        )
        for name in (signer, f"{signer.partition('/')[0]}/*"):
            if await is_allowed(self._authorize, asked._replace(name=name)):
                return True
        return False


class CertificateApproval(SignerPlugin):
    name = "CertificateApproval"
    verb = "approve"
    subresource = "approval"


class CertificateSigning(SignerPlugin):
    name = "CertificateSigning"
    verb = "sign"
    subresource = "status"

    def changes(self, new: Document, old: Document) -> bool:
        after, before = new.get("status") or {}, old.get("status") or {}
        return any(after.get(field) != before.get(field) for field in ("certificate", "conditions"))


class ClusterTrustBundleAttest(SignerPlugin):
    """Checks permission to publish trusted certificates in the name of a signer."""

    name = "ClusterTrustBundleAttest"
    verb = "attest"

    def __init__(self, authorize: Authorizer, brand: Brand) -> None:
        super().__init__(authorize, brand)
        self.handled = writes(GroupResource(self._group, "clustertrustbundles"))

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if old is not None and is_only_gc_change(new, old):
            return
        # Validation refuses to change the signer.
        signer = (new.get("spec") or {}).get("signerName") or ""
        if signer and not await self.may_for(attributes, signer):
            why = f"user not permitted to attest for signerName {quote(signer)}"
            raise refused(attributes, new, why)


class CertificateSubjectRestriction(Plugin):
    """Refuses requests for client certificates of the group `system:masters`."""

    name = "CertificateSubjectRestriction"

    def __init__(self, brand: Brand) -> None:
        self.handled = creates(GroupResource(brand.group("certificates"), "certificatesigningrequests"))

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if new["spec"].get("signerName") != _CLIENTS:
            return
        from cryptography.x509.oid import NameOID

        from apiserver.golang.x509_parsing import UNREADABLE, parse_request

        # The block that Go's decoder finds first, which validation has seen, and which signers will sign.
        block = next(pem_blocks(base64.b64decode(new["spec"].get("request", ""))), None)
        try:
            request = parse_request(block.content if block is not None else b"")
            organizations = [
                each.value for each in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
            ]
        except UNREADABLE as error:
            raise refused(attributes, new, f"failed to parse CSR: {error}") from None
        if SYSTEM_MASTERS in organizations:
            raise refused(
                attributes, new, f"use of {_CLIENTS} signer with {SYSTEM_MASTERS} group is not allowed"
            )
