"""What Services hold exclusively, or want to: addresses in the cluster and ports of nodes.

Pure: what is free is the registry's to know. It reads `claims` to see what a service holds, asks `wants`
what else has to be chosen for it, and puts that in with `assign`. Source: pkg/registry/core/service/storage,
alloc.go.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from apiserver.field_errors import FieldError, invalid
from apiserver.vocabulary import Document

Kind: TypeAlias = Literal["clusterip", "nodeport"]

HEADLESS: Final = "None"
IP_TAKEN: Final = "provided IP is already allocated"
IP_OUT_OF_RANGE: Final = "the provided network does not match the current range"
PORT_TAKEN: Final = "provided port is already allocated"


def port_out_of_range(low: int, high: int) -> str:
    return f"provided port is not in the valid range. The range of valid ports is {low}-{high}"


class Allocation(NamedTuple):
    """Something that one service has, and no other may have.

    value: `10.96.0.7`, or `30080`: as in Kubernetes, a port of nodes is one service's whatever the protocol.
    field: where it stands, for errors.
    """

    kind: Kind
    value: str
    field: str


class AllocationRequest(NamedTuple):
    """Something that has to be chosen.

    family: `IPv4` or `IPv6`, of an address. places: where it is to stand, for `assign`: indexes of
    `spec.clusterIPs` or of `spec.ports`; no index is the port of the health check.
    """

    kind: Kind
    family: str
    places: tuple[int, ...]


def claims(document: Document) -> tuple[Allocation, ...]:
    """What the service holds; the same thing once, where it stands first."""
    spec = document.get("spec") or {}
    found: dict[tuple[Kind, str], Allocation] = {}
    for claim in _claims(spec):
        found.setdefault((claim.kind, claim.value), claim)
    return tuple(found.values())


def _claims(spec: Document) -> Iterator[Allocation]:
    if needs_cluster_ip(spec):
        for ip in cluster_ips(spec):
            if ip not in ("", HEADLESS):
                yield Allocation("clusterip", canonical_ip(ip), "spec.clusterIPs")
    if needs_node_ports(spec):
        for index, port in enumerate(spec.get("ports") or ()):
            if number := port.get("nodePort"):
                yield Allocation("nodeport", str(number), f"spec.ports[{index}].nodePort")
    if needs_health_check_node_port(spec) and (number := spec.get("healthCheckNodePort")):
        yield Allocation("nodeport", str(number), "spec.healthCheckNodePort")


def allocation_requests(document: Document, *, is_new: bool) -> tuple[AllocationRequest, ...]:
    """What has to be chosen for the service. Its IP families are set already.

    is_new: ports of a new service with the same number, as of DNS over TCP and UDP, share a node port.
    """
    spec = document.get("spec") or {}
    found: list[AllocationRequest] = []
    ips = cluster_ips(spec)
    if needs_cluster_ip(spec) and ips[:1] != [HEADLESS]:
        families = list(spec.get("ipFamilies") or ())
        found += [
            AllocationRequest("clusterip", family, (i,)) for i, family in enumerate(families) if i >= len(ips)
        ]
    if allocates_node_ports(spec):
        together: dict[int, list[int]] = {}
        for index, port in enumerate(spec.get("ports") or ()):
            if not port.get("nodePort"):
                together.setdefault(port.get("port", 0) if is_new else index, []).append(index)
        found += [AllocationRequest("nodeport", "", tuple(indexes)) for indexes in together.values()]
    if needs_health_check_node_port(spec) and not spec.get("healthCheckNodePort"):
        found.append(AllocationRequest("nodeport", "", ()))
    return tuple(found)


def assign(document: Document, want: AllocationRequest, value: str) -> None:
    """Put in what has been chosen. Addresses come in the order of `allocation_requests`."""
    spec = document["spec"]
    if want.kind == "clusterip":
        spec["clusterIPs"] = [*cluster_ips(spec), value]
        spec["clusterIP"] = spec["clusterIPs"][0]
    elif not want.places:
        spec["healthCheckNodePort"] = int(value)
    for index in want.places if want.kind == "nodeport" else ():
        spec["ports"][index]["nodePort"] = int(value)


def refused(document: Document, claim: Allocation, reason: str) -> FieldError:
    """The error for something that the service asks for and cannot have; reason: one of those above."""
    if claim.kind == "clusterip":
        ips = cluster_ips(document["spec"])
        return invalid(claim.field, ips, f"failed to allocate IP {claim.value}: {reason}")
    return invalid(claim.field, int(claim.value), reason)


# ---- what services of a type need


def cluster_ips(spec: Document) -> list[str]:
    return list(spec.get("clusterIPs") or ())


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address; one of IPv4 however it is written. Raises ValueError."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def canonical_ip(text: str) -> str:
    """One text for one address."""
    try:
        return str(address_of(text))
    except ValueError:
        return text


def family_of(text: str) -> str:
    """Empty if it is no address."""
    try:
        return f"IPv{address_of(text).version}"
    except ValueError:
        return ""


def is_headless(spec: Document) -> bool:
    return cluster_ips(spec) == [HEADLESS]


def needs_cluster_ip(spec: Document) -> bool:
    """It has addresses, if only `None`."""
    return bool(spec.get("type") != "ExternalName")


def needs_node_ports(spec: Document) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def allocates_node_ports(spec: Document) -> bool:
    """Ports that name no node port are given one."""
    is_balanced = spec.get("type") == "LoadBalancer"
    return spec.get("type") == "NodePort" or (is_balanced and bool(spec.get("allocateLoadBalancerNodePorts")))


def needs_health_check_node_port(spec: Document) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_externally_accessible(spec: Document) -> bool:
    return needs_node_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


# ---- what is carried over on updates, and let go of


def carry_over(spec: Document, old: Document) -> None:
    """Clients may leave out what was chosen for them."""
    if needs_cluster_ip(old) and needs_cluster_ip(spec):
        _default(spec, old, "clusterIP")
        _default(spec, old, "clusterIPs")
    if needs_node_ports(old) and needs_node_ports(spec):
        _carry_node_ports(spec, old)
    if needs_health_check_node_port(old) and needs_health_check_node_port(spec):
        _default(spec, old, "healthCheckNodePort")


def _default(spec: Document, old: Document, field: str) -> None:
    if not spec.get(field) and old.get(field):
        spec[field] = old[field]


def _carry_node_ports(spec: Document, old: Document) -> None:
    """By the names of ports; a node port that another port has been given is not given twice."""
    by_name = {port.get("name", ""): port.get("nodePort") for port in old.get("ports") or ()}
    used = set(_node_ports(spec)) & set(_node_ports(old))
    for port in spec.get("ports") or ():
        known = by_name.get(port.get("name", ""))
        if not port.get("nodePort") and known and known not in used:
            port["nodePort"] = known


def _node_ports(spec: Document) -> list[int]:
    return [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]


def _match_cluster_ips(spec: Document, old: Document | None) -> None:
    """Let `clusterIP` and `clusterIPs` say the same, where a client has changed only one of them."""
    ip, ips = spec.get("clusterIP", ""), cluster_ips(spec)
    if old is None:
        if ip and not ips:
            spec["clusterIPs"] = [ip]
        return
    old_ip, old_ips = old.get("clusterIP", ""), cluster_ips(old)
    if ip != old_ip and ips == old_ips:
        _set(spec, "clusterIPs", [ip] if ip else None)


def release(spec: Document, old: Document) -> None:
    """Drop what the type no longer needs, unless the client has changed it, which is then an error."""
    if needs_cluster_ip(old) and not needs_cluster_ip(spec):
        if _same(spec, old, "clusterIP") and _same(spec, old, "clusterIPs"):
            _set(spec, "clusterIP", None)
            _set(spec, "clusterIPs", None)
        for field in ("ipFamilies", "ipFamilyPolicy"):
            _drop_if_same(spec, old, field)
    if needs_node_ports(old) and not needs_node_ports(spec) and {*_node_ports(spec)} <= {*_node_ports(old)}:
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if needs_health_check_node_port(old) and not needs_health_check_node_port(spec):
        _drop_if_same(spec, old, "healthCheckNodePort")
    if old.get("type") == "LoadBalancer" != spec.get("type"):
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            _drop_if_same(spec, old, field)
    if is_externally_accessible(old) and not is_externally_accessible(spec):
        _drop_if_same(spec, old, "externalTrafficPolicy")


def _same(spec: Document, old: Document, field: str) -> bool:
    return bool((spec.get(field) or None) == (old.get(field) or None))


def _drop_if_same(spec: Document, old: Document, field: str) -> None:
    if spec.get(field) == old.get(field):
        spec.pop(field, None)


def _set(spec: Document, field: str, value: Any) -> None:
    if value is None:
        spec.pop(field, None)
    else:
        spec[field] = value


def _share_node_ports(spec: Document) -> None:
    """A new service: a node port that is asked for serves all ports with the same number."""
    if not allocates_node_ports(spec):
        return
    asked: dict[int, int] = {}
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            asked.setdefault(port.get("port", 0), port["nodePort"])
    for port in spec.get("ports") or ():
        if not port.get("nodePort") and port.get("port", 0) in asked:
            port["nodePort"] = asked[port["port"]]
