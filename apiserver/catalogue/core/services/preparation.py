"""Defaults of Services, and the fields that the server sets on create and update.

`families` are the IP families of the cluster, the default one first.
Source: pkg/apis/core/v1/defaults.go, pkg/registry/core/service.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from apiserver.catalogue.builtin_type import CORE
from apiserver.catalogue.core.services.addresses import (
    HEADLESS,
    IP_FAMILIES,
    TRAFFIC_POLICIES,
    IPFamilies,
    allocates_node_ports,
    cluster_ips,
    family_of,
    is_externally_accessible,
    needs_cluster_ip,
    needs_health_check_node_port,
    needs_node_ports,
    takes_any_family,
)
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import keep_status
from apiserver.schema.compile import Default
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at

_AFFINITY_TIMEOUT_S: Final = 10_800


def _default_service(document: Document) -> None:
    spec = document["spec"]
    setting(sessionAffinity="None", type="ClusterIP")(spec)
    _default_affinity(spec)
    kind = spec["type"]
    if is_externally_accessible(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        setting(internalTrafficPolicy="Cluster")(spec)
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in document["status"]["loadBalancer"].get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _default_affinity(spec: Document) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        timeout_s = at(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds")
        if timeout_s is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_TIMEOUT_S}}


def _default_port(port: Document) -> None:
    port.setdefault("protocol", "TCP")
    if port.get("targetPort") in (None, 0, ""):
        port["targetPort"] = port["port"]


DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {f"{CORE}Service": _default_service, f"{CORE}ServicePort": _default_port}
)


def prepare_service_create(document: Document, *, families: IPFamilies) -> None:
    document["status"] = {"loadBalancer": {}}
    if spec := document.get("spec"):
        _match_cluster_ips(spec, None)
        _fill_families(spec, None, families)
        _share_node_ports(spec)
        _drop_internal_traffic_policy(spec)


def prepare_service_update(new: Document, old: Document, *, families: IPFamilies) -> None:
    keep_status(new, old)
    spec, old_spec = new.get("spec"), old.get("spec")
    if not spec or not old_spec:
        return
    _carry_over(spec, old_spec)
    _match_cluster_ips(spec, old_spec)
    _release(spec, old_spec)
    _fill_families(spec, old_spec, families)
    _drop_internal_traffic_policy(spec)
    if spec.get("type") != "LoadBalancer" and at(new, "status", "loadBalancer", "ingress"):
        new["status"] = {**new["status"], "loadBalancer": {}}


def _drop_internal_traffic_policy(spec: Document) -> None:
    """Drops a valid internal traffic policy of an ExternalName service. Kubernetes drops it on reads."""
    if spec.get("type") == "ExternalName" and spec.get("internalTrafficPolicy") in TRAFFIC_POLICIES:
        del spec["internalTrafficPolicy"]


def _fill_families(spec: Document, old: Document | None, families: IPFamilies) -> None:
    """Sets the IP families and their policy; leaves them unset where they are invalid."""
    if spec.get("type") == "ExternalName" or (old is not None and _prefers_what_it_has(spec, old)):
        return
    takes_any = takes_any_family(spec)
    policy = spec.get("ipFamilyPolicy")
    if policy is None:
        policy = (old or {}).get("ipFamilyPolicy") or ("RequireDualStack" if takes_any else "SingleStack")
        spec["ipFamilyPolicy"] = policy
    if old is not None and policy != "SingleStack" and _is_reduced(spec, old):
        return
    if old is not None and policy == "SingleStack":
        for field in ("clusterIPs", "ipFamilies"):
            if spec.get(field) and spec[field] == old.get(field):
                spec[field] = spec[field][:1]
    found = list(spec.get("ipFamilies") or ())
    for ip in cluster_ips(spec)[len(found) :]:
        if ip == HEADLESS:
            break
        family = family_of(ip)
        if family in found or family not in families:
            return
        found.append(family)
    found = found or [families[0]]
    if len(found) == 1 and policy != "SingleStack" and (takes_any or len(families) == 2):
        found += [family for family in IP_FAMILIES if family not in found][:1]
    spec["ipFamilies"] = found


def _is_reduced(spec: Document, old: Document) -> bool:
    """Returns whether a client removes a second address or family."""
    return any(
        0 < len(spec.get(field) or ()) < len(old.get(field) or ()) for field in ("clusterIPs", "ipFamilies")
    )


def _prefers_what_it_has(spec: Document, old: Document) -> bool:
    """Returns whether an unchanged service prefers dual stack: only a change adds or removes a second
    family.
    """
    same = all(
        spec.get(field) == old.get(field) for field in ("type", "ipFamilyPolicy", "clusterIPs", "ipFamilies")
    )
    return same and spec.get("ipFamilyPolicy") == "PreferDualStack"


# ---- what is carried over from the old object, and what is dropped


def _carry_over(spec: Document, old: Document) -> None:
    """Copies allocated values that the client omitted from the old service."""
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
    """Copies node ports by the names of ports, except those that another port now has."""
    by_name = {port.get("name", ""): port.get("nodePort") for port in old.get("ports") or ()}
    used = set(_node_ports(spec)) & set(_node_ports(old))
    for port in spec.get("ports") or ():
        known = by_name.get(port.get("name", ""))
        if not port.get("nodePort") and known and known not in used:
            port["nodePort"] = known


def _node_ports(spec: Document) -> list[int]:
    return [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]


def _match_cluster_ips(spec: Document, old: Document | None) -> None:
    """Makes `clusterIP` and `clusterIPs` agree if a client changed only one of them."""
    ip, ips = spec.get("clusterIP", ""), cluster_ips(spec)
    if old is None:
        if ip and not ips:
            spec["clusterIPs"] = [ip]
        return
    old_ip, old_ips = old.get("clusterIP", ""), cluster_ips(old)
    if ip != old_ip and ips == old_ips:
        _set(spec, "clusterIPs", [ip] if ip else None)


def _release(spec: Document, old: Document) -> None:
    """Drops fields that the type no longer needs, unless the client changed them, which is then an error."""
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
    """Assigns a requested node port to all ports of a new service with the same number."""
    if not allocates_node_ports(spec):
        return
    asked: dict[int, int] = {}
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            asked.setdefault(port.get("port", 0), port["nodePort"])
    for port in spec.get("ports") or ():
        if not port.get("nodePort") and port.get("port", 0) in asked:
            port["nodePort"] = asked[port["port"]]
