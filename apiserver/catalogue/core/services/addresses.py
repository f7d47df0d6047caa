"""The addresses and ports of Services: the needs of their types, and parsing of addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.addresses import parse_ip

HEADLESS: Final = "None"
TRAFFIC_POLICIES: Final = ("Cluster", "Local")


def cluster_ips(spec: Document) -> list[str]:
    return list(spec.get("clusterIPs") or ())


def normalized_ip(text: str) -> str:
    """Returns the canonical text of an address, or the text itself if it is invalid."""
    found = parse_ip(text)
    return text if found is None else str(found.address)


def family_of(text: str) -> str:
    """Returns `IPv4` or `IPv6`; empty if the text is not an address."""
    found = parse_ip(text)
    return "" if found is None else found.family


def is_headless(spec: Document) -> bool:
    return cluster_ips(spec) == [HEADLESS]


def needs_cluster_ip(spec: Document) -> bool:
    """Returns whether a service of the type has cluster IPs; a headless one has `None`."""
    return bool(spec.get("type") != "ExternalName")


def needs_node_ports(spec: Document) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def allocates_node_ports(spec: Document) -> bool:
    """Returns whether ports without a node port are assigned one."""
    is_balanced = spec.get("type") == "LoadBalancer"
    return spec.get("type") == "NodePort" or (is_balanced and bool(spec.get("allocateLoadBalancerNodePorts")))


def needs_health_check_node_port(spec: Document) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_externally_accessible(spec: Document) -> bool:
    return needs_node_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


IPFamilies: TypeAlias = Sequence[str]
IP_FAMILIES: Final = ("IPv4", "IPv6")


def takes_any_family(spec: Document) -> bool:
    """Returns whether the service is headless without a selector: then its endpoints may be of any family."""
    return spec.get("clusterIP") == HEADLESS and not spec.get("selector")
