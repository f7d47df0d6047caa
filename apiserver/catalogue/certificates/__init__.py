"""The group `certificates.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.certificates import (
    certificate_signing_requests,
    cluster_trust_bundles,
    pod_certificate_requests,
)


def types() -> tuple[BuiltinType, ...]:
    return (
        certificate_signing_requests.builtin_type(),
        *cluster_trust_bundles.types(),
        *pod_certificate_requests.types(),
    )
