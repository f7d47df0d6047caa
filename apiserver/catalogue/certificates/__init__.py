"""The group `certificates.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.certificates import certificate_signing_requests, cluster_trust_bundles


def types() -> tuple[BuiltinType, ...]:
    return (certificate_signing_requests.builtin_type(), *cluster_trust_bundles.types())
