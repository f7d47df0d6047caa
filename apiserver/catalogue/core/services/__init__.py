"""Services.

preparation  sets defaults, IP families, and fields that a client may omit on updates
validation   checks a Service, and its status
updates      checks immutable fields
allocation   allocates cluster IPs and node ports
addresses    the needs of the types of Services, and parsing of addresses
warnings     warnings about discouraged fields
"""

from __future__ import annotations

from functools import partial

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.common.columns import labels_cell
from apiserver.catalogue.core.services.allocation import ServiceAllocator
from apiserver.catalogue.core.services.preparation import (
    DEFAULTS,
    prepare_service_create,
    prepare_service_update,
)
from apiserver.catalogue.core.services.validation import (
    ServiceRules,
    validate_service,
    validate_service_status,
)
from apiserver.catalogue.core.services.warnings import warn_service, warn_service_status
from apiserver.meta import names
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry import subresources
from apiserver.registry.field_getters import field_texts
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.addresses import STRICT_ADDRESSES, AddressChecks


def builtin_type(allocator: ServiceAllocator, gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = ServiceRules(
        AddressChecks(gates.is_on(STRICT_ADDRESSES)),
        has_relaxed_names=gates.is_on("RelaxedServiceNameValidation"),
        has_same_node=gates.is_on("PreferSameTrafficDistribution"),
    )
    families = tuple(allocator.networks)
    return BuiltinType(
        "",
        "v1",
        "services",
        "Service",
        short_names=("svc",),
        categories=("all",),
        subresources=(
            subresources.proxy("ServiceProxyOptions"),
            status_subresource(
                partial(validate_service_status, addresses=rules.addresses), warn=warn_service_status
            ),
        ),
        defaults=DEFAULTS,
        strategy=Strategy(
            name_rule=names.dns_label,
            prepare_create=partial(prepare_service_create, families=families),
            validate_ratcheting=partial(validate_service, families=families, rules=rules),
            warn=warn_service,
            update=UpdateStrategy(partial(prepare_service_update, families=families)),
            allows_create_on_update=True,
            returns_deleted=True,
            allocator=allocator,
        ),
        columns=columns(
            Column(
                "Type",
                field_cell("spec", "type", default="ClusterIP"),
                "How the service is exposed: ClusterIP, NodePort, LoadBalancer or ExternalName.",
            ),
            Column(
                "Cluster-IP",
                field_cell("spec", "clusterIP", default="<none>"),
                "The cluster IP of the service; None if it is headless.",
            ),
            Column("External-IP", _external_ip, "The external addresses of the service."),
            Column("Port(s)", _ports, "The ports of the service, and their protocols."),
            AGE,
            Column(
                "Selector",
                labels_cell("spec", "selector"),
                "The label selector of the service's pods.",
                priority=1,
            ),
        ),
        selectable_fields=field_texts("spec.clusterIP", "spec.type"),
    )


# ---- columns. Source: pkg/printers/internalversion, printService


def _external_ip(document: Document, now: float) -> str:
    spec = document.get("spec", {})
    kind = spec.get("type") or "ClusterIP"
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    addresses = list(spec.get("externalIPs") or ())
    if kind == "LoadBalancer":
        ingress = document.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
        addresses = [each.get("ip") or each.get("hostname") or "" for each in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or "<none>"


def _ports(document: Document, now: float) -> str:
    texts = []
    for port in document.get("spec", {}).get("ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol') or 'TCP'}")
    return ",".join(texts) or "<none>"
