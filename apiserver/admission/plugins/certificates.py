"""Who may approve and sign requests for certificates, and what no certificate may say.

Source: kubernetes, plugin/pkg/admission/certificates.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from apiserver.admission.chain import Operation, Plugin, Write
from apiserver.admission.plugins.listers import refused
from apiserver.authz.attributes import Attributes, Decision, Verdict
from apiserver.brand import Brand
from apiserver.field_errors import quote
from apiserver.vocabulary import MASTERS, Document, GroupResource

Authorize = Callable[[Attributes], Verdict]

_CLIENTS: Final = "kubernetes.io/kube-apiserver-client"


class _OfSigners(Plugin):
    """Asks whether the caller may do something in the name of a signer, or of all signers of its domain."""

    verb = ""
    done = ""
    subresource = ""

    def __init__(self, authorize: Authorize, brand: Brand) -> None:
        self._authorize = authorize
        self._requests = GroupResource(brand.group("certificates"), "certificatesigningrequests")

    def concerns(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return (
            resource == self._requests and subresource == self.subresource and operation is Operation.UPDATE
        )

    def changes(self, new: Document, old: Document) -> bool:
        """Whether the write does what the plugin is about."""
        return True

    async def validate(self, write: Write, new: Document | None, old: Document | None) -> None:
        if new is None or old is None or not self.changes(new, old):
            return
        # The name in the new object is not what will be stored.
        signer = old["spec"].get("signerName", "")
        if not any(self._may(write, name) for name in (signer, f"{signer.partition('/')[0]}/*")):
            raise refused(
                write, new, f"user not permitted to {self.verb} requests with signerName {quote(signer)}"
            )

    def _may(self, write: Write, signer: str) -> bool:
        asked = Attributes(
            write.user,
            self.verb,
            is_resource=True,
            path="",
            group=self._requests.group,
            resource="signers",
            name=signer,
        )
        return self._authorize(asked).decision is Decision.ALLOW


class CertificateApproval(_OfSigners):
    name = "CertificateApproval"
    verb = "approve"
    subresource = "approval"


class CertificateSigning(_OfSigners):
    name = "CertificateSigning"
    verb = "sign"
    subresource = "status"

    def changes(self, new: Document, old: Document) -> bool:
        after, before = new.get("status") or {}, old.get("status") or {}
        return any(after.get(field) != before.get(field) for field in ("certificate", "conditions"))


class CertificateSubjectRestriction(Plugin):
    """Nobody becomes one of the masters by a certificate that he asks for."""

    name = "CertificateSubjectRestriction"

    def __init__(self, brand: Brand) -> None:
        self._requests = GroupResource(brand.group("certificates"), "certificatesigningrequests")

    def concerns(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource == self._requests and not subresource and operation is Operation.CREATE

    async def validate(self, write: Write, new: Document | None, old: Document | None) -> None:
        if new is None or new["spec"].get("signerName") != _CLIENTS:
            return
        try:
            request = x509.load_pem_x509_csr(base64.b64decode(new["spec"].get("request", "")))
            organizations = [
                each.value for each in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
            ]
        except ValueError as error:
            raise refused(write, new, f"failed to parse CSR: {error}") from None
        if MASTERS in organizations:
            raise refused(write, new, f"use of {_CLIENTS} signer with {MASTERS} group is not allowed")
