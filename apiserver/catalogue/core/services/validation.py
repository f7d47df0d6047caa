"""What is set, checked and told of Services.

`families` are the IP families that the cluster has addresses of, the default one first. Source:
pkg/apis/core/v1/defaults.go, pkg/apis/core/validation (ValidateService), pkg/registry/core/service.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from apiserver.catalogue.core.services.preparation import (
    HEADLESS,
    _match_cluster_ips,
    _share_node_ports,
    address_of,
    carry_over,
    cluster_ips,
    family_of,
    is_externally_accessible,
    is_headless,
    needs_health_check_node_port,
    release,
)
from apiserver.field_errors import duplicate, forbidden, invalid, not_supported, required
from apiserver.meta import names, object_meta
from apiserver.registry.strategy import keep_status
from apiserver.schema.compile import Default
from apiserver.validation import checks
from apiserver.validation.checks import CORE, IMMUTABLE, Errors, items, named, one_of
from apiserver.vocabulary import Document

Families: TypeAlias = Sequence[str]
IPV4_ONLY: Final[Families] = ("IPv4",)

AFFINITY_TIMEOUT_S: Final = 10_800
_AFFINITY_TIMEOUT_S_MAX: Final = 86_400
# In the order in which Kubernetes tells them.
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_AFFINITIES: Final = ("ClientIP", "None")
_TRAFFIC_POLICIES: Final = ("Cluster", "Local")
IP_FAMILIES: Final = ("IPv4", "IPv6")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameNode", "PreferSameZone")
_IP_MODES: Final = ("Proxy", "VIP")
TOPOLOGY_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
TOPOLOGY_MODE: Final = "service.kubernetes.io/topology-mode"
_SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_NOT_BALANCED: Final = "may only be used when `type` is 'LoadBalancer'"
_MAY_NOT_CHANGE: Final = "may not change once set"


# ---- defaults


def _default_service(document: Document) -> None:
    spec = document["spec"]
    checks.setting(sessionAffinity="None", type="ClusterIP")(spec)
    _default_affinity(spec)
    kind = spec["type"]
    if is_externally_accessible(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        checks.setting(internalTrafficPolicy="Cluster")(spec)
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in document["status"]["loadBalancer"].get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _default_affinity(spec: Document) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        timeout_s = checks.at(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds")
        if timeout_s is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": AFFINITY_TIMEOUT_S}}


def _default_port(port: Document) -> None:
    port.setdefault("protocol", "TCP")
    if port.get("targetPort") in (None, 0, ""):
        port["targetPort"] = port["port"]


DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {f"{CORE}Service": _default_service, f"{CORE}ServicePort": _default_port}
)


# ---- create and update


def prepare_service_create(document: Document, *, families: Families = IPV4_ONLY) -> None:
    document["status"] = {"loadBalancer": {}}
    if spec := document.get("spec"):
        _match_cluster_ips(spec, None)
        _fill_families(spec, None, families)
        _share_node_ports(spec)


def prepare_service_update(new: Document, old: Document, *, families: Families = IPV4_ONLY) -> None:
    keep_status(new, old)
    spec, old_spec = new.get("spec"), old.get("spec")
    if not spec or not old_spec:
        return
    carry_over(spec, old_spec)
    _match_cluster_ips(spec, old_spec)
    release(spec, old_spec)
    _fill_families(spec, old_spec, families)
    if spec.get("type") != "LoadBalancer" and checks.at(new, "status", "loadBalancer", "ingress"):
        new["status"] = {**new["status"], "loadBalancer": {}}


def _fill_families(spec: Document, old: Document | None, families: Families) -> None:
    """Say what families of addresses the service has, and how many it wants; nothing if that is wrong."""
    if spec.get("type") == "ExternalName" or (old is not None and _prefers_what_it_has(spec, old)):
        return
    takes_any = takes_any_family(spec)
    policy = spec.get("ipFamilyPolicy") or (old or {}).get("ipFamilyPolicy")
    policy = spec["ipFamilyPolicy"] = policy or ("RequireDualStack" if takes_any else "SingleStack")
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


def takes_any_family(spec: Document) -> bool:
    """Somebody else makes the endpoints of a headless service without a selector, of whatever family."""
    return spec.get("clusterIP") == HEADLESS and not spec.get("selector")


def _prefers_what_it_has(spec: Document, old: Document) -> bool:
    """Such a service gets and loses a second family only if somebody says so."""
    same = all(
        spec.get(field) == old.get(field) for field in ("type", "ipFamilyPolicy", "clusterIPs", "ipFamilies")
    )
    return same and spec.get("ipFamilyPolicy") == "PreferDualStack"


# ---- validation


def validate_service(document: Document, *, families: Families = IPV4_ONLY) -> Errors:
    """Ports and addresses that are still to be chosen may be absent."""
    spec = document.get("spec") or {}
    annotations = document["metadata"].get("annotations") or {}
    return [
        *_topology(annotations),
        *_by_type(spec),
        *_ports(spec),
        *object_meta.validate_labels(spec.get("selector"), "spec.selector"),
        *_affinity(spec),
        *_addresses(spec, families),
        *_external_ips(spec),
        *one_of("spec.type", spec.get("type"), _TYPES, required_text=""),
        *_node_ports(spec),
        *_unique_ports(spec),
        *_source_ranges(spec, annotations),
        *_load_balancer(spec),
        *_traffic(spec),
    ]


def _topology(annotations: Mapping[str, str]) -> Errors:
    hints, mode = annotations.get(TOPOLOGY_HINTS), annotations.get(TOPOLOGY_MODE)
    if hints is None or mode is None or hints == mode:
        return []
    text = f"must match annotations[{TOPOLOGY_HINTS}] when both are specified"
    return [invalid(f"metadata.annotations[{TOPOLOGY_MODE}]", mode, text)]


def _by_type(spec: Document) -> Errors:
    kind, headless = spec.get("type"), is_headless(spec)
    errors: Errors = []
    if not spec.get("ports") and not headless and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and headless:
        errors.append(
            invalid("spec.clusterIPs[0]", HEADLESS, f"may not be set to 'None' for {kind} services")
        )
    if kind == "ExternalName":
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field):
                errors.append(forbidden(f"spec.{field}", "may not be set for ExternalName services"))
        name = spec.get("externalName", "").removesuffix(".")
        errors += named("spec.externalName", name, names.dns_subdomain)
    return errors


def _ports(spec: Document) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    needs_name = len(spec.get("ports") or ()) > 1
    for path, port in items(spec, "ports", "spec"):
        name = port.get("name", "")
        errors += named(f"{path}.name", name, names.dns_label, is_required=needs_name)
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        if name:
            seen.add(name)
        errors += checks.port_number(f"{path}.port", port.get("port"))
        errors += one_of(f"{path}.protocol", port.get("protocol"), _PROTOCOLS, required_text="")
        errors += checks.port_number_or_name(f"{path}.targetPort", port.get("targetPort"))
        if (protocol := port.get("appProtocol")) is not None:
            errors += [
                invalid(f"{path}.appProtocol", protocol, text) for text in names.qualified_name(protocol)
            ]
    return errors


def _affinity(spec: Document) -> Errors:
    affinity, config = spec.get("sessionAffinity"), spec.get("sessionAffinityConfig")
    errors = one_of("spec.sessionAffinity", affinity, _AFFINITIES, required_text="")
    if affinity == "None" and config is not None:
        text = "must not be set when session affinity is None"
        errors.append(forbidden("spec.sessionAffinityConfig", text))
    if affinity == "ClientIP":
        timeout_s = checks.at(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds")
        if timeout_s is not None and not 0 < timeout_s <= _AFFINITY_TIMEOUT_S_MAX:
            where = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            errors.append(
                invalid(where, timeout_s, f"must be greater than 0 and less than {_AFFINITY_TIMEOUT_S_MAX}")
            )
    return errors


def _addresses(spec: Document, families: Families) -> Errors:
    if spec.get("type") == "ExternalName":
        return []
    ip, ips, found = spec.get("clusterIP", ""), cluster_ips(spec), list(spec.get("ipFamilies") or ())
    errors: Errors = []
    if ip and not ips:
        errors.append(required("spec.clusterIPs"))
    elif ip and ips[0] != ip:
        errors.append(invalid("spec.clusterIPs", ips, "first value must match `clusterIP`"))
    elif not ip and ips:
        errors.append(invalid("spec.clusterIPs", ips, "must be empty when `clusterIP` is not specified"))
    for index, family in enumerate(found):
        errors += one_of(f"spec.ipFamilies[{index}]", family, IP_FAMILIES)
        # There are two families: whoever names more of them names one twice.
        if index and family in found[: min(index, len(IP_FAMILIES))]:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
    if policy := spec.get("ipFamilyPolicy"):
        errors += one_of("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES)
    wrong = _wrong_ips(ips)
    errors += wrong
    if len(ips) > 2:
        errors.append(invalid("spec.clusterIPs", ips, "may only hold up to 2 values"))
    if wrong:
        return errors
    if len(ips) > 1 and len({family_of(each) for each in ips}) < 2:
        text = "may specify no more than one IP for each IP family"
        errors.append(invalid("spec.clusterIPs", ips, text))
    if not is_headless(spec):
        for index, (each, family) in enumerate(zip(ips, found, strict=False)):
            if family in IP_FAMILIES and family_of(each) != family:
                text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                errors.append(invalid(f"spec.clusterIPs[{index}]", each, text))
    return errors or _configured(spec, ips, found, families)


def _wrong_ips(ips: Sequence[str]) -> Errors:
    errors: Errors = []
    for index, ip in enumerate(ips):
        if index == 0 and ip == HEADLESS:
            if len(ips) > 1:
                errors.append(invalid("spec.clusterIPs", ips, "'None' must be the first and only value"))
        else:
            errors += checks.ip_address(f"spec.clusterIPs[{index}]", ip)
    return errors


def _configured(spec: Document, ips: Sequence[str], found: Sequence[str], families: Families) -> Errors:
    """Whether the cluster has what is asked for."""
    policy, takes_any = spec.get("ipFamilyPolicy"), takes_any_family(spec)
    errors: Errors = []
    if policy == "SingleStack":
        for values, what in ((ips, "cluster IPs"), (found, "IP families")):
            if len(values) == 2:
                text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    for index, ip in enumerate(ips):
        if ip != HEADLESS and index >= len(found) and family_of(ip) not in families:
            text = f"{family_of(ip)} is not configured on this cluster"
            errors.append(invalid(f"spec.clusterIPs[{index}]", ips, text))
    if takes_any or errors:
        return errors
    if policy == "RequireDualStack" and len(families) < 2:
        text = "this cluster is not configured for dual-stack services"
        errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    for index, family in enumerate(found):
        if family not in families:
            errors.append(invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
    return errors


# Of addresses that mean something only on one node or in one network.
_SPECIAL: Final = (
    ("is_loopback", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
    ("is_link_local", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
)
_LINK_LOCAL_MULTICAST: Final = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def validate_non_special_ip(path: str, text: str) -> Errors:
    """An address, known to be well-formed, that other nodes can use."""
    ip = address_of(text)
    errors = [invalid(path, text, problem) for attribute, problem in _SPECIAL if getattr(ip, attribute)]
    if ip.is_unspecified:
        errors.append(invalid(path, text, f"may not be unspecified ({text})"))
    if any(ip in network for network in _LINK_LOCAL_MULTICAST if network.version == ip.version):
        problem = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        errors.append(invalid(path, text, problem))
    return errors


def _external_ips(spec: Document) -> Errors:
    errors: Errors = []
    for path, ip in items(spec, "externalIPs", "spec"):
        errors += checks.ip_address(path, ip) or validate_non_special_ip(path, ip)
    return errors


def _node_ports(spec: Document) -> Errors:
    errors: Errors = []
    if spec.get("type") == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        errors += [
            forbidden(f"{path}.nodePort", text)
            for path, port in items(spec, "ports", "spec")
            if port.get("nodePort")
        ]
    seen: set[tuple[Any, Any]] = set()
    for path, port in items(spec, "ports", "spec"):
        if number := port.get("nodePort"):
            if (port.get("protocol"), number) in seen:
                errors.append(duplicate(f"{path}.nodePort", number))
            seen.add((port.get("protocol"), number))
    return errors


def _unique_ports(spec: Document) -> Errors:
    errors: Errors = []
    seen: set[tuple[Any, Any]] = set()
    for path, port in items(spec, "ports", "spec"):
        protocol, number = port.get("protocol", ""), port.get("port", 0)
        if (protocol, number) in seen:
            shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number}
            errors.append(duplicate(path, shown | {"TargetPort": 0, "NodePort": 0}))
        seen.add((protocol, number))
    return errors


def _source_ranges(spec: Document, annotations: Mapping[str, str]) -> Errors:
    is_balanced = spec.get("type") == "LoadBalancer"
    errors: Errors = []
    if ranges := spec.get("loadBalancerSourceRanges"):
        path = "spec.LoadBalancerSourceRanges"
        if not is_balanced:
            errors.append(forbidden(path, _NOT_BALANCED))
        for index, value in enumerate(ranges):
            errors += checks.cidr(f"{path}[{index}]", value.strip())
    elif (text := annotations.get(_SOURCE_RANGES)) is not None:
        path = f"metadata.annotations[{_SOURCE_RANGES}]"
        if not is_balanced:
            errors.append(forbidden(path, _NOT_BALANCED))
        for value in text.split(",") if text.strip() else ():
            errors += checks.cidr(path, value.strip())
    return errors


def _load_balancer(spec: Document) -> Errors:
    is_balanced = spec.get("type") == "LoadBalancer"
    errors: Errors = []
    if not is_balanced and spec.get("allocateLoadBalancerNodePorts") is not None:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _NOT_BALANCED))
    if (name := spec.get("loadBalancerClass")) is not None:
        path = "spec.loadBalancerClass"
        if is_balanced:
            errors += [invalid(path, name, problem) for problem in names.qualified_name(name)]
        else:
            errors.append(forbidden(path, _NOT_BALANCED))
    return errors


def _traffic(spec: Document) -> Errors:
    external, path = spec.get("externalTrafficPolicy", ""), "spec.externalTrafficPolicy"
    errors: Errors = []
    if is_externally_accessible(spec):
        errors += one_of(path, external, _TRAFFIC_POLICIES, required_text="")
    elif external:
        errors.append(invalid(path, external, "may only be set for externally-accessible services"))
    if port := spec.get("healthCheckNodePort"):
        path = "spec.healthCheckNodePort"
        if needs_health_check_node_port(spec):
            errors += checks.port_number(path, port)
        else:
            text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            errors.append(invalid(path, port, text))
    if (internal := spec.get("internalTrafficPolicy")) is not None:
        errors += one_of("spec.internalTrafficPolicy", internal, _TRAFFIC_POLICIES)
    if (distribution := spec.get("trafficDistribution")) is not None:
        errors += one_of("spec.trafficDistribution", distribution, _DISTRIBUTIONS)
    return errors


def validate_service_update(new: Document, old: Document) -> Errors:
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    errors: Errors = []
    if "ExternalName" not in (spec.get("type"), old_spec.get("type")):
        was_headless, headless = is_headless(old_spec), is_headless(spec)
        if not (was_headless and headless):
            errors += _changed_list(spec, old_spec, "clusterIPs", "clusterIP")
        if not was_headless and not headless:
            errors += _changed_list(spec, old_spec, "ipFamilies", "ipFamily")
    balancer = spec.get("loadBalancerClass")
    if spec.get("type") == old_spec.get("type") == "LoadBalancer" and balancer != old_spec.get(
        "loadBalancerClass"
    ):
        errors.append(invalid("spec.loadBalancerClass", balancer, _MAY_NOT_CHANGE))
    if not needs_health_check_node_port(spec) or not needs_health_check_node_port(old_spec):
        return errors
    if spec.get("healthCheckNodePort") != old_spec.get("healthCheckNodePort"):
        errors.append(forbidden("spec.healthCheckNodePort", IMMUTABLE))
    return errors


def _changed_list(spec: Document, old_spec: Document, field: str, single: str) -> Errors:
    """The first value stays; the second one comes, or goes if the policy says so."""
    new, old, path = list(spec.get(field) or ()), list(old_spec.get(field) or ()), f"spec.{field}"
    if len(new) == len(old):
        return [
            invalid(f"{path}[{index if field == 'clusterIPs' else 0}]", new, _MAY_NOT_CHANGE)
            for index in range(min(len(old), 2))
            if new[index] != old[index]
        ]
    if not new:
        return [invalid(f"{path}[0]", new, f"primary {single} can not be unset")]
    errors: Errors = []
    if old and new[0] != old[0]:
        errors.append(invalid(f"{path}[0]", new, _MAY_NOT_CHANGE))
    policy = spec.get("ipFamilyPolicy")
    if len(new) == 1 < len(old) and policy != "SingleStack":
        text = f"must be set to 'SingleStack' when releasing the secondary {single}"
        errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    return errors


def validate_service_status(new: Document, old: Document) -> Errors:
    return validate_load_balancer_status(
        "status.loadBalancer", checks.at(new, "status", "loadBalancer") or {}, new
    )


def validate_load_balancer_status(path: str, status: Document, service: Document) -> Errors:
    if checks.at(service, "spec", "type") != "LoadBalancer" and status.get("ingress"):
        return [forbidden(f"{path}.ingress", "may only be used when `spec.type` is 'LoadBalancer'")]
    errors: Errors = []
    for where, ingress in items(status, "ingress", path):
        ip, mode, host = ingress.get("ip"), ingress.get("ipMode"), ingress.get("hostname")
        if ip:
            errors += checks.ip_address(f"{where}.ip", ip)
        if mode is None:
            errors += [required(f"{where}.ipMode", "must be specified when `ip` is set")] if ip else []
        elif not ip:
            errors.append(forbidden(f"{where}.ipMode", "may not be specified when `ip` is not set"))
        elif mode not in _IP_MODES:
            errors.append(not_supported(f"{where}.ipMode", mode, _IP_MODES))
        if host:
            errors += named(f"{where}.hostname", host, names.dns_subdomain)
            if family_of(host):
                errors.append(invalid(f"{where}.hostname", host, "must be a DNS name, not an IP address"))
    return errors


# ---- warnings


def warn_service(new: Document, old: Document | None) -> list[str]:
    spec = new.get("spec") or {}
    headless = spec.get("type") == "ClusterIP" and spec.get("clusterIP") == HEADLESS
    external_ips, kind = spec.get("externalIPs") or (), spec.get("type")
    told: list[str] = []
    if TOPOLOGY_HINTS in (new["metadata"].get("annotations") or {}):
        told.append(f"annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead")
    if not headless:
        told += warn_ips("spec.clusterIPs", cluster_ips(spec))
    else:
        if spec.get("loadBalancerIP"):
            told.append("spec.loadBalancerIP is ignored for headless services")
        if external_ips:
            told.append("spec.externalIPs is ignored for headless services")
        if spec.get("sessionAffinity") != "None":
            told.append("spec.SessionAffinity is ignored for headless services")
    told += warn_ips("spec.externalIPs", external_ips)
    if external_ips and not headless and kind != "ExternalName":
        told.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if ip := spec.get("loadBalancerIP"):
        told += warn_ip("spec.loadBalancerIP", ip)
    told += _warn_cidrs("spec.loadBalancerSourceRanges", spec.get("loadBalancerSourceRanges") or ())
    if kind == "ExternalName" and external_ips:
        told.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and spec.get("externalName"):
        told.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        told.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return told


def warn_ips(path: str, texts: Iterable[str]) -> list[str]:
    return [told for index, text in enumerate(texts) for told in warn_ip(f"{path}[{index}]", text)]


def warn_ip(path: str, text: str) -> list[str]:
    """An address that is written in an unusual way."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return []
    if isinstance(ip, ipaddress.IPv4Address):
        return []
    if ip.ipv4_mapped is not None:
        told = f'will be considered invalid in a future Kubernetes release: use "{ip.ipv4_mapped}"'
        return [f'{path}: non-standard IP address "{text}" {told}']
    if str(ip) != text:
        return [f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{ip}")']
    return []


def _warn_cidrs(path: str, texts: Iterable[str]) -> list[str]:
    told = []
    for index, text in enumerate(texts):
        try:
            interface = ipaddress.ip_interface(text)
        except ValueError:
            continue
        if interface.ip != interface.network.network_address:
            single = f"{interface.ip}/{interface.max_prefixlen}"
            told.append(
                f'{path}[{index}]: CIDR value "{text}" is ambiguous in this context (should be '
                f'"{interface.network}" or "{single}"?)'
            )
    return told
