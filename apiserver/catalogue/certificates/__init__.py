"""The group `certificates.k8s.io`."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.certificates import (
    certificate_signing_requests,
    cluster_trust_bundles,
    pod_certificate_requests,
)

TYPES: Final = (
    certificate_signing_requests.BUILTIN_TYPE,
    *cluster_trust_bundles.TYPES,
    *pod_certificate_requests.TYPES,
)
