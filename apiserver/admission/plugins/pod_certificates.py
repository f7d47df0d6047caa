"""Checks that only authorized signers issue certificates of pods, which must be valid from now on.

The check cannot be disabled, but is called like a plugin, after validation, which covers everything that
needs neither the caller nor the time. Kubernetes checks at the same place, in the storage of the type.
Source: pkg/registry/certificates/podcertificaterequest/strategy.go, StatusStrategy (release 1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, updates
from apiserver.admission.plugins.certificates import SignerPlugin
from apiserver.auth.authz.attributes import Authorizer
from apiserver.catalogue.certificates.pod_certificate_requests import ISSUED, RESOURCE, has_ended
from apiserver.golang.times import ZERO_TIME
from apiserver.meta import timestamps
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Invalid
from apiserver.meta.field_errors import FieldError, forbidden, invalid, quote
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.schema.validation.checks import without_nulls
from apiserver.schema.validation.documents import at

# How far the beginning of a certificate may be from now.
SKEW_S_MAX: Final = 300


class PodCertificateSigning(SignerPlugin):
    """Checks that writers of a PodCertificateRequest's status may sign. clock: seconds since 1970."""

    verb = "sign"

    def __init__(self, authorize: Authorizer, brand: Brand, clock: Callable[[], float]) -> None:
        super().__init__(authorize, brand)
        self._clock = clock
        self.handled = updates(GroupResource(brand.group("certificates"), RESOURCE), subresource="status")

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        """Check the permission to sign, and when a new certificate becomes valid. Raises Invalid."""
        if old is None:
            return
        if has_ended(new, ISSUED) and not has_ended(old):
            self._check_time(attributes, new)
        if without_nulls(new.get("status") or {}) == without_nulls(old.get("status") or {}):
            return
        signer = old["spec"].get("signerName", "")
        if not await self.may_for(attributes, signer):
            name = quote(attributes.user.name)
            text = f'User {name} is not permitted to "sign" for signer {quote(signer)}'
            raise _invalid(attributes, new, forbidden("spec.signerName", text))

    def _check_time(self, attributes: AdmissionAttributes, new: Document) -> None:
        told = at(new, "status", "notBefore") or ZERO_TIME
        begin = timestamps.from_text(told)
        if begin is None or abs(begin - self._clock()) >= SKEW_S_MAX:
            text = "must be set to within 5 minutes of kube-apiserver's current time"
            raise _invalid(attributes, new, invalid("status.notBefore", told, text))


def _invalid(attributes: AdmissionAttributes, new: Document, error: FieldError) -> Invalid:
    return Invalid(attributes.resource.group_kind, new["metadata"].get("name", ""), [error])
