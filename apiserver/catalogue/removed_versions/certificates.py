"""CertificateSigningRequests of certificates/v1beta1, where usages and the signer are optional.

PodCertificateRequests of v1alpha1 are as in v1beta1, with fewer fields.

Source: pkg/apis/certificates/v1beta1/defaults.go and validation (release 1.21). Row T18.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.certificates.certificate_signing_requests import (
    updates,
    validate_certificate_request,
)
from apiserver.catalogue.certificates.signers import (
    check_kubelet_client,
    check_kubelet_serving,
    read_request,
)
from apiserver.catalogue.common.other_versions import CurrentTypes, other_version
from apiserver.catalogue.common.signer_names import (
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
    NotForSigner,
)
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import Default
from apiserver.schema.validation.defaults import setting_empty

_CHECKS: Final = ((KUBELET_CLIENT, check_kubelet_client), (KUBELET_SERVING, check_kubelet_serving))


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    v1, of_v1beta1 = current["certificates.", "certificatesigningrequests"], updates(of_v1beta1=True)
    strategy = v1.strategy._replace(
        validate_create=partial(validate_certificate_request, of_v1beta1=True), update=of_v1beta1.main
    )
    return (
        other_version(v1, "v1beta1", adds=DEFAULTS, strategy=strategy, subresources=of_v1beta1.subresources),
        other_version(current["certificates.", "podcertificaterequests"], "v1alpha1"),
    )


def complete_spec(spec: Document) -> None:
    """Sets the usages of the time before there were any, and a signer that fits."""
    if spec.get("usages") is None:
        spec["usages"] = ["digital signature", "key encipherment"]
    if spec.get("signerName") is None:
        spec["signerName"] = signer_of(spec)


def signer_of(spec: Document) -> str:
    """Returns the signer for requests of kubelets, and the legacy one for all others."""
    try:
        request = read_request(base64.b64decode(spec.get("request") or ""))
    except (NotForSigner, binascii.Error):
        return LEGACY_UNKNOWN
    for signer, check in _CHECKS:
        try:
            check(request, spec["usages"])
        except NotForSigner:
            continue
        return signer
    return LEGACY_UNKNOWN


DEFAULTS: Final[Mapping[str, Default]] = {
    "CertificateSigningRequestSpec": complete_spec,
    "CertificateSigningRequestCondition": setting_empty(status="True"),
}
