"""Services for the tests of this package."""

from __future__ import annotations

from typing import Final

from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.served_kinds import Changes, ServedKind, least

SERVICE: Final = ServedKind("services")
DUAL: Final = ServedKind("services", families=("IPv6", "IPv4"))
LEAST: Final = least("Service", spec={"ports": [{"port": 80}]})
IP: Final = "10.96.0.7"


def stored(changes: Changes, kind: ServedKind = SERVICE) -> Document:
    """A service as it is once its addresses have been chosen."""
    document, errors = kind.created(LEAST, changes)
    assert errors == []
    return document


HAS: Final[Changes] = {"spec.clusterIP": IP}
NODE_PORT: Final[Changes] = {**HAS, "spec.type": "NodePort", "spec.ports.0.nodePort": 30080}
BALANCED: Final[Changes] = {
    **NODE_PORT,
    "spec.type": "LoadBalancer",
    "spec.externalTrafficPolicy": "Local",
    "spec.healthCheckNodePort": 30081,
    "spec.loadBalancerClass": "example.com/lb",
}
