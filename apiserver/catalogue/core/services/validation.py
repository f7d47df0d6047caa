"""Validation of single Services, and of their status.

`families` are the IP families of the cluster, the default one first.
Source: pkg/apis/core/validation, ValidateService.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from apiserver.catalogue.core.services.addresses import (
    HEADLESS,
    IP_FAMILIES,
    TRAFFIC_POLICIES,
    IPFamilies,
    cluster_ips,
    family_of,
    is_externally_accessible,
    is_headless,
    needs_health_check_node_port,
    takes_any_family,
)
from apiserver.catalogue.core.services.updates import (
    LOAD_BALANCER_ONLY,
    validate_change,
    validate_load_balancer_class,
)
from apiserver.meta import names, object_meta
from apiserver.meta.field_errors import Errors, duplicate, forbidden, invalid, not_supported, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.addresses import AddressChecks, parse_ip
from apiserver.schema.validation.checks import named, one_of, port_number, port_number_or_name
from apiserver.schema.validation.documents import at, items

_AFFINITY_TIMEOUT_S_MAX: Final = 86_400
# In the order in which Kubernetes lists them.
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_AFFINITIES: Final = ("ClientIP", "None")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_OLD_DISTRIBUTIONS: Final = ("PreferClose",)
_IP_MODES: Final = ("Proxy", "VIP")
TOPOLOGY_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
TOPOLOGY_MODE: Final = "service.kubernetes.io/topology-mode"
_SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"


class ServiceRules(NamedTuple):
    """The rules of a release. has_relaxed_names: whether the name of a service may begin with a digit.

    has_same_node: whether traffic can be kept on a node, or in a zone.
    """

    addresses: AddressChecks
    has_relaxed_names: bool
    has_same_node: bool


def validate_service(
    document: Document, old: Document | None, *, families: IPFamilies, rules: ServiceRules
) -> Errors:
    """Checks a service, whose ports and addresses may not be allocated yet.

    old: the stored one, whose addresses remain valid. Errors in cluster IPs and their families suppress all
    others: Kubernetes allocates before it validates.
    """
    spec, before = document.get("spec") or {}, (old or {}).get("spec") or {}
    annotations = document["metadata"].get("annotations") or {}
    errors = _cluster_ips(spec, rules.addresses, cluster_ips(before)) or _configured(spec, before, families)
    if errors:
        return errors
    return [
        *(validate_change(document, old) if old is not None else ()),
        *(_name(document) if old is None and not rules.has_relaxed_names else ()),
        *_topology(annotations),
        *_by_type(spec),
        *_ports(spec),
        *object_meta.validate_labels(spec.get("selector"), "spec.selector"),
        *_affinity(spec),
        *_external_ips(spec, rules.addresses, before.get("externalIPs") or ()),
        *one_of("spec.type", spec.get("type"), _TYPES, required_text=""),
        *_node_ports(spec),
        *_unique_ports(spec),
        *_source_ranges(document, old or {}, rules.addresses),
        *_load_balancer(spec),
        *_traffic(spec, _DISTRIBUTIONS if rules.has_same_node else _OLD_DISTRIBUTIONS),
    ]


def _name(document: Document) -> Errors:
    """Checks the name of a new service if it may not begin with a digit. Stored names remain valid."""
    name = document["metadata"].get("name", "")
    return (
        []
        if names.dns_label(name)
        else [invalid("metadata.name", name, problem) for problem in names.dns1035_label(name)]
    )


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
            if spec.get(field) not in (None, []):
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
        errors += port_number(f"{path}.port", port.get("port"))
        errors += one_of(f"{path}.protocol", port.get("protocol"), _PROTOCOLS, required_text="")
        errors += port_number_or_name(f"{path}.targetPort", port.get("targetPort"))
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
        timeout_s = at(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds")
        if timeout_s is not None and not 0 < timeout_s <= _AFFINITY_TIMEOUT_S_MAX:
            where = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            errors.append(
                invalid(where, timeout_s, f"must be greater than 0 and less than {_AFFINITY_TIMEOUT_S_MAX}")
            )
    return errors


def _cluster_ips(spec: Document, addresses: AddressChecks, stored: Sequence[str]) -> Errors:
    """Checks cluster IPs, IP families and their policy. stored: the stored cluster IPs, which remain valid.

    Source: ValidateServiceClusterIPsRelatedFields.
    """
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
    seen: set[str] = set()
    for index, family in enumerate(found):
        errors += one_of(f"spec.ipFamilies[{index}]", family, IP_FAMILIES)
        if family in seen:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
        seen.add(family)
    if (policy := spec.get("ipFamilyPolicy")) is not None:
        errors += one_of("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES)
    wrong = _wrong_ips(ips, addresses, stored)
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
    return errors


def _wrong_ips(ips: Sequence[str], addresses: AddressChecks, stored: Sequence[str]) -> Errors:
    errors: Errors = []
    for index, ip in enumerate(ips):
        if index == 0 and ip == HEADLESS:
            if len(ips) > 1:
                errors.append(invalid("spec.clusterIPs", ips, "'None' must be the first and only value"))
        else:
            errors += addresses.ip(f"spec.clusterIPs[{index}]", ip, stored)
    return errors


def _configured(spec: Document, old: Document, families: IPFamilies) -> Errors:
    """Checks that the cluster has the requested IP families. old: empty for a new service.

    Source: pkg/registry/core/service/storage, initIPFamilyFields.
    """
    if spec.get("type") == "ExternalName":
        return []
    ips, found = cluster_ips(spec), list(spec.get("ipFamilies") or ())
    policy = spec.get("ipFamilyPolicy")
    errors: Errors = []
    if policy != "SingleStack" and (len(families) > 1 or takes_any_family(spec)):
        for field, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
            if 0 < len(spec.get(field) or ()) < len(old.get(field) or ()):
                text = f"must be 'SingleStack' to release the secondary {what}"
                errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    elif policy == "SingleStack":
        for values, what in ((ips, "cluster IPs"), (found, "IP families")):
            if len(values) == 2:
                text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    for index, ip in enumerate(ips):
        if ip != HEADLESS and index >= len(found) and family_of(ip) not in families:
            text = f"{family_of(ip)} is not configured on this cluster"
            errors.append(invalid(f"spec.clusterIPs[{index}]", ips, text))
    if takes_any_family(spec) or errors:
        return errors
    if policy == "RequireDualStack" and len(families) < 2:
        text = "this cluster is not configured for dual-stack services"
        errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    for index, family in enumerate(found):
        if family not in families:
            errors.append(invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
    return errors


_LINK_LOCAL_MULTICAST: Final = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def validate_endpoint_ip(path: str, text: str) -> Errors:
    """Checks that other nodes can use an address. Source: ValidateEndpointIP."""
    found = parse_ip(text)
    if found is None:
        return [invalid(path, text, "must be a valid IP address")]
    ip = found.address
    errors: Errors = []
    if ip.is_unspecified:
        errors.append(invalid(path, text, f"may not be unspecified ({text})"))
    if ip.is_loopback:
        errors.append(invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if ip.is_link_local:
        errors.append(invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if any(ip in network for network in _LINK_LOCAL_MULTICAST if network.version == ip.version):
        problem = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        errors.append(invalid(path, text, problem))
    return errors


def _external_ips(spec: Document, addresses: AddressChecks, stored: Sequence[str]) -> Errors:
    errors: Errors = []
    for path, ip in items(spec, "externalIPs", "spec"):
        errors += addresses.ip(path, ip, stored) or validate_endpoint_ip(path, ip)
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


def _source_ranges(document: Document, old: Document, addresses: AddressChecks) -> Errors:
    """Checks the source ranges. old: as in `validate_service`; empty if there is none."""
    spec, is_balanced = document.get("spec") or {}, at(document, "spec", "type") == "LoadBalancer"
    text = at(document, "metadata", "annotations", _SOURCE_RANGES)
    errors: Errors = []
    if ranges := spec.get("loadBalancerSourceRanges"):
        path = "spec.LoadBalancerSourceRanges"
        if not is_balanced:
            errors.append(forbidden(path, LOAD_BALANCER_ONLY))
        stored = [value.strip() for value in at(old, "spec", "loadBalancerSourceRanges") or ()]
        for index, value in enumerate(ranges):
            errors += addresses.cidr(f"{path}[{index}]", value.strip(), stored)
    elif text is not None:
        path = f"metadata.annotations[{_SOURCE_RANGES}]"
        if not is_balanced:
            errors.append(forbidden(path, LOAD_BALANCER_ONLY))
        is_stored = at(old, "metadata", "annotations", _SOURCE_RANGES) == text
        for value in text.split(",") if text.strip() and not is_stored else ():
            errors += addresses.cidr(path, value.strip())
    return errors


def _load_balancer(spec: Document) -> Errors:
    errors: Errors = []
    if spec.get("type") != "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not None:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", LOAD_BALANCER_ONLY))
    return errors + validate_load_balancer_class(spec)


def _traffic(spec: Document, distributions: Sequence[str]) -> Errors:
    external, path = spec.get("externalTrafficPolicy", ""), "spec.externalTrafficPolicy"
    errors: Errors = []
    if is_externally_accessible(spec):
        errors += one_of(path, external, TRAFFIC_POLICIES, required_text="")
    elif external:
        errors.append(invalid(path, external, "may only be set for externally-accessible services"))
    if port := spec.get("healthCheckNodePort"):
        path = "spec.healthCheckNodePort"
        if needs_health_check_node_port(spec):
            errors += port_number(path, port)
        else:
            text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            errors.append(invalid(path, port, text))
    if (internal := spec.get("internalTrafficPolicy")) is not None:
        errors += one_of("spec.internalTrafficPolicy", internal, TRAFFIC_POLICIES)
    if (distribution := spec.get("trafficDistribution")) is not None:
        errors += one_of("spec.trafficDistribution", distribution, distributions)
    return errors


def validate_service_status(new: Document, old: Document, *, addresses: AddressChecks) -> Errors:
    path = "status.loadBalancer"
    status, before = (at(each, "status", "loadBalancer") or {} for each in (new, old))
    if at(new, "spec", "type") != "LoadBalancer" and status.get("ingress"):
        return [forbidden(f"{path}.ingress", "may only be used when `spec.type` is 'LoadBalancer'")]
    stored = {each.get("ip") for each in before.get("ingress") or ()}
    errors: Errors = []
    for where, ingress in items(status, "ingress", path):
        ip, mode, host = ingress.get("ip"), ingress.get("ipMode"), ingress.get("hostname")
        if ip:
            errors += addresses.ip(f"{where}.ip", ip, stored)
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
