"""Warnings about Services. Source: pkg/api/service/warnings.go."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apiserver.catalogue.core.services.addresses import HEADLESS
from apiserver.catalogue.core.services.validation import TOPOLOGY_HINTS, TOPOLOGY_MODE
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.addresses import cidr_warnings, ip_warnings
from apiserver.schema.validation.documents import at, items


def warn_service(new: Document, old: Document | None) -> list[str]:
    spec = new.get("spec") or {}
    headless = spec.get("type") == "ClusterIP" and spec.get("clusterIP") == HEADLESS
    external_ips, kind = spec.get("externalIPs") or (), spec.get("type")
    warnings: list[str] = []
    if TOPOLOGY_HINTS in (new["metadata"].get("annotations") or {}):
        warnings.append(f"annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead")
    if spec.get("clusterIP") not in (None, "", HEADLESS):
        warnings += _each(spec, "clusterIPs", ip_warnings)
    if headless:
        if spec.get("loadBalancerIP"):
            warnings.append("spec.loadBalancerIP is ignored for headless services")
        if external_ips:
            warnings.append("spec.externalIPs is ignored for headless services")
        if spec.get("sessionAffinity") != "None":
            warnings.append("spec.SessionAffinity is ignored for headless services")
    warnings += _each(spec, "externalIPs", ip_warnings)
    if external_ips and not headless and kind != "ExternalName":
        warnings.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if ip := spec.get("loadBalancerIP"):
        warnings += ip_warnings("spec.loadBalancerIP", ip)
    warnings += _each(spec, "loadBalancerSourceRanges", cidr_warnings)
    if kind == "ExternalName" and external_ips:
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        warnings.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return warnings


def warn_service_status(new: Document, old: Document) -> list[str]:
    return [
        text
        for where, ingress in items(at(new, "status", "loadBalancer") or {}, "ingress", "status.loadBalancer")
        if ingress.get("ip")
        for text in ip_warnings(where, ingress["ip"])
    ]


def _each(spec: Document, field: str, warn: Callable[[str, str], Iterable[str]]) -> list[str]:
    """Returns the warnings of all items of a list."""
    return [text for path, value in items(spec, field, "spec") for text in warn(path, value)]
