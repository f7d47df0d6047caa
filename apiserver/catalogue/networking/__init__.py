"""The group `networking.k8s.io`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from apiserver.catalogue.builtin_type import STATUS_SUBRESOURCE, BuiltinType, StoredAs
from apiserver.catalogue.networking import canonical_addresses, ingresses, network_policies
from apiserver.catalogue.pod_specs.templates import clear_status
from apiserver.meta import table
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import STATUS, Strategy, UpdateStrategy, keep_status
from apiserver.validation.checks import at
from apiserver.vocabulary import Document


def types() -> tuple[BuiltinType, ...]:
    return (
        _networking(
            "ingressclasses",
            "IngressClass",
            is_namespaced=False,
            strategy=Strategy(
                validate=ingresses.validate_ingress_class,
                update=UpdateStrategy(validate=ingresses.validate_ingress_class_update),
                has_generation=True,
            ),
            columns=columns(
                Column(
                    "Controller", field_cell("spec", "controller"), description="Who serves such ingresses."
                ),
                Column("Parameters", _parameters, description="The object that says how they are served."),
                AGE,
            ),
        ),
        _networking(
            "ingresses",
            "Ingress",
            short_names=("ing",),
            subresources=(
                replace(
                    STATUS_SUBRESOURCE,
                    update=replace(STATUS, validate=ingresses.validate_ingress_status_update),
                ),
            ),
            strategy=Strategy(
                prepare_create=_prepare_ingress,
                validate=ingresses.validate_ingress,
                validate_create=ingresses.validate_ingress_create,
                warn=ingresses.warn_ingress,
                update=UpdateStrategy(prepare=keep_status),
                has_generation=True,
            ),
            columns=columns(
                Column("Class", _class, description="The class of ingresses that this one belongs to."),
                Column(
                    "Hosts", _hosts, description="The host names that it answers to, the first few of them."
                ),
                Column("Address", _addresses, description="Where it can be reached."),
                Column("Ports", _ports, description="The ports that it listens at: 443, too, if it has TLS."),
                AGE,
            ),
        ),
        *(_ip_addresses(version) for version in ("v1", "v1beta1")),
        _networking(
            "networkpolicies",
            "NetworkPolicy",
            short_names=("netpol",),
            strategy=Strategy(validate=network_policies.validate_network_policy, has_generation=True),
            columns=columns(
                Column("Pod-Selector", _pod_selector, description="The labels of the pods that it is about."),
                AGE,
            ),
        ),
        *(_service_cidrs(version) for version in ("v1", "v1beta1")),
    )


def _networking(resource: str, kind: str, version: str = "v1", **more: Any) -> BuiltinType:
    definition = f"io.k8s.api.networking.{version}.{kind}"
    more["stored_as"] = None if version == "v1" else _as_v1(resource, kind)
    return BuiltinType(
        "networking.", version, resource, kind, definition, in_runtime_config=version != "v1", **more
    )


def _as_v1(resource: str, kind: str) -> StoredAs:
    return StoredAs("networking.", "v1", resource, kind, _same, _same)


def _same(document: Document) -> None:
    """The versions differ in nothing but their names."""


# ---- Ingress, IngressClass


def _prepare_ingress(document: Document) -> None:
    document["status"] = {"loadBalancer": {}}


def _class(document: Document, now: float) -> str:
    name = at(document, "spec", "ingressClassName")
    if name is None:
        name = at(document, "metadata", "annotations", "kubernetes.io/ingress.class")
    return name or "<none>"


_HOSTS_SHOWN_MAX: Final = 3


def _hosts(document: Document, now: float) -> str:
    hosts = [rule["host"] for rule in at(document, "spec", "rules") or () if rule.get("host")]
    if not hosts:
        return "*"
    shown = ",".join(hosts[:_HOSTS_SHOWN_MAX])
    hidden = len(hosts) - _HOSTS_SHOWN_MAX
    return f"{shown} + {hidden} more..." if hidden > 0 else shown


def _addresses(document: Document, now: float) -> str:
    ingress = at(document, "status", "loadBalancer", "ingress") or ()
    return ",".join(sorted({each.get("ip") or each.get("hostname") or "" for each in ingress} - {""}))


def _ports(document: Document, now: float) -> str:
    return "80, 443" if at(document, "spec", "tls") else "80"


def _parameters(document: Document, now: float) -> str:
    parameters = at(document, "spec", "parameters")
    if not parameters:
        return "<none>"
    group, kind = parameters.get("apiGroup"), parameters.get("kind", "")
    return f"{kind}.{group}/{parameters.get('name', '')}" if group else f"{kind}/{parameters.get('name', '')}"


def _pod_selector(document: Document, now: float) -> str:
    return table.selector_text(at(document, "spec", "podSelector"))


# ---- IPAddress, ServiceCIDR


def _ip_addresses(version: str) -> BuiltinType:
    return _networking(
        "ipaddresses",
        "IPAddress",
        version,
        is_namespaced=False,
        short_names=("ip",),
        strategy=Strategy(
            name_rule=canonical_addresses.canonical_ip,
            validate_create=canonical_addresses.validate_ip_address,
            update=UpdateStrategy(validate=canonical_addresses.validate_ip_address_update),
        ),
        columns=columns(
            Column("ParentRef", _parent, description="The object that has the address."),
            AGE,
        ),
    )


def _parent(document: Document, now: float) -> str:
    parent = at(document, "spec", "parentRef") or {}
    resource, group = parent.get("resource", ""), parent.get("group")
    parts = [f"{resource}.{group}" if group else resource, parent.get("namespace"), parent.get("name", "")]
    return "/".join(part for part in parts if part)


def _service_cidrs(version: str) -> BuiltinType:
    return _networking(
        "servicecidrs",
        "ServiceCIDR",
        version,
        is_namespaced=False,
        subresources=(STATUS_SUBRESOURCE,),
        strategy=Strategy(
            prepare_create=clear_status,
            validate_create=canonical_addresses.validate_service_cidr,
            update=UpdateStrategy(keep_status, canonical_addresses.validate_service_cidr_update),
        ),
        columns=columns(
            Column("CIDRs", _cidrs, description="The ranges that services get their addresses from."), AGE
        ),
    )


def _cidrs(document: Document, now: float) -> str:
    return ",".join(at(document, "spec", "cidrs") or ())
