"""Warnings about Services. Source: pkg/api/service/warnings.go."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from apiserver.catalogue.core.services.addresses import HEADLESS, cluster_ips
from apiserver.catalogue.core.services.validation import TOPOLOGY_HINTS, TOPOLOGY_MODE
from apiserver.vocabulary import Document


def warn_service(new: Document, old: Document | None) -> list[str]:
    spec = new.get("spec") or {}
    headless = spec.get("type") == "ClusterIP" and spec.get("clusterIP") == HEADLESS
    external_ips, kind = spec.get("externalIPs") or (), spec.get("type")
    warnings: list[str] = []
    if TOPOLOGY_HINTS in (new["metadata"].get("annotations") or {}):
        warnings.append(f"annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead")
    if not headless:
        warnings += _warn_ips("spec.clusterIPs", cluster_ips(spec))
    else:
        if spec.get("loadBalancerIP"):
            warnings.append("spec.loadBalancerIP is ignored for headless services")
        if external_ips:
            warnings.append("spec.externalIPs is ignored for headless services")
        if spec.get("sessionAffinity") != "None":
            warnings.append("spec.SessionAffinity is ignored for headless services")
    warnings += _warn_ips("spec.externalIPs", external_ips)
    if external_ips and not headless and kind != "ExternalName":
        warnings.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if ip := spec.get("loadBalancerIP"):
        warnings += warn_ip("spec.loadBalancerIP", ip)
    warnings += _warn_cidrs("spec.loadBalancerSourceRanges", spec.get("loadBalancerSourceRanges") or ())
    if kind == "ExternalName" and external_ips:
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        warnings.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return warnings


def _warn_ips(path: str, texts: Iterable[str]) -> list[str]:
    return [warning for index, text in enumerate(texts) for warning in warn_ip(f"{path}[{index}]", text)]


def warn_ip(path: str, text: str) -> list[str]:
    """Warns of an address that is written in an unusual way."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return []
    if isinstance(ip, ipaddress.IPv4Address):
        return []
    if ip.ipv4_mapped is not None:
        problem = f'will be considered invalid in a future Kubernetes release: use "{ip.ipv4_mapped}"'
        return [f'{path}: non-standard IP address "{text}" {problem}']
    if str(ip) != text:
        return [f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{ip}")']
    return []


def _warn_cidrs(path: str, texts: Iterable[str]) -> list[str]:
    warnings = []
    for index, text in enumerate(texts):
        try:
            interface = ipaddress.ip_interface(text)
        except ValueError:
            continue
        if interface.ip != interface.network.network_address:
            single = f"{interface.ip}/{interface.max_prefixlen}"
            warnings.append(
                f'{path}[{index}]: CIDR value "{text}" is ambiguous in this context (should be '
                f'"{interface.network}" or "{single}"?)'
            )
    return warnings
