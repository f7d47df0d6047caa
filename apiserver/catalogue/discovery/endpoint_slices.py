"""EndpointSlices. Source: pkg/apis/discovery/validation, pkg/registry/discovery/endpointslice."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import Final, TypeAlias

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType
from apiserver.catalogue.common.columns import first_few
from apiserver.catalogue.core.services.validation import validate_endpoint_ip
from apiserver.meta import names, object_meta
from apiserver.meta.field_errors import Errors, invalid, required, too_many
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.addresses import (
    STRICT_ADDRESSES,
    AddressChecks,
    canonical_ip,
    ip_warnings,
    parse_ip,
)
from apiserver.schema.validation.checks import follows, immutable, max_items, named, one_of, uniqueness
from apiserver.schema.validation.documents import at, items


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    addresses = AddressChecks(gates.is_on(STRICT_ADDRESSES))
    return BuiltinType(
        "discovery.",
        "v1",
        "endpointslices",
        "EndpointSlice",
        defaults={"io.k8s.api.discovery.v1.EndpointPort": _complete_port},
        strategy=Strategy(
            prepare_create=drop_topology,
            validate_ratcheting=partial(validate_endpoint_slice, addresses=addresses),
            warn=warn_endpoint_slice,
            update=UpdateStrategy(prepare_endpoint_slice_update),
            has_generation=True,
        ),
        columns=columns(
            Column(
                "AddressType",
                field_cell("addressType"),
                "The type of the addresses: IPv4, IPv6 or FQDN.",
            ),
            Column("Ports", _ports_cell, "The first ports of the endpoints."),
            Column("Endpoints", _endpoints_cell, "The first addresses of the endpoints."),
            AGE,
        ),
    )


_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_ENDPOINTS_MAX: Final = 1000
_ADDRESSES_MAX: Final = 100
_PORTS_MAX: Final = 100
_TOPOLOGY_MAX: Final = 16
_HINTS_MAX: Final = 8
_HOST: Final = "kubernetes.io/hostname"


def _complete_port(port: Document) -> None:
    if port.get("name") is None:
        port["name"] = ""
    if port.get("protocol") is None:
        port["protocol"] = "TCP"


def drop_topology(document: Document, nodes: Container[str] = ()) -> None:
    """Drops topology, which only v1beta1 can write. Stored topology is kept until the endpoints change.

    nodes: the names of nodes in the stored topology; they become the `nodeName` of endpoints without one.
    """
    for endpoint in document.get("endpoints") or ():
        node = (endpoint.pop("deprecatedTopology", None) or {}).get(_HOST, "")
        if node in nodes and endpoint.get("nodeName") is None and not names.dns_subdomain(node):
            endpoint["nodeName"] = node


def prepare_endpoint_slice_update(new: Document, old: Document) -> None:
    """Increases the generation also for changed labels, and drops topology from changed endpoints."""
    count_endpoint_slice_update(new, old)
    if new.get("endpoints") != old.get("endpoints"):
        topologies = (each.get("deprecatedTopology") or {} for each in old.get("endpoints") or ())
        drop_topology(new, {topology[_HOST] for topology in topologies if topology.get(_HOST)})


def count_endpoint_slice_update(new: Document, old: Document) -> None:
    meta, before = new["metadata"], old["metadata"]
    has_other_labels = (meta.get("labels") or {}) != (before.get("labels") or {})
    has_other_spec = any(
        new.get(field) != old.get(field) for field in new.keys() | old.keys() if field != "metadata"
    )
    if has_other_labels or has_other_spec:
        meta["generation"] = before.get("generation", 0) + 1


def validate_endpoint_slice(document: Document, old: Document | None, *, addresses: AddressChecks) -> Errors:
    """Checks a slice. Unchanged endpoints are not checked: they may be older than the rules."""
    kind = document.get("addressType", "")
    errors = one_of("addressType", kind, _ADDRESS_TYPES, required_text="") + _ports(document)
    if old is None:
        return errors + _endpoints(document, addresses)
    if document.get("endpoints") != old.get("endpoints"):
        errors += _endpoints(document, addresses)
    return errors + immutable("addressType", kind, old.get("addressType", ""))


_CONTROLLERS: Final = frozenset(
    {"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"}
)


def warn_endpoint_slice(new: Document, old: Document | None) -> list[str]:
    warnings: list[str] = []
    if old is None and new.get("addressType") == "FQDN":
        warnings.append("spec.addressType: FQDN endpoints are deprecated")
    if at(new, "metadata", "labels", "endpointslice.kubernetes.io/managed-by") in _CONTROLLERS:
        return warnings  # They write addresses as they should be.
    for where, endpoint in items(new, "endpoints", ""):
        for path, address in items(endpoint, "addresses", where):
            warnings += ip_warnings(path, address)
    return warnings


def _endpoints(document: Document, addresses: AddressChecks) -> Errors:
    if excess := max_items("endpoints", document.get("endpoints"), _ENDPOINTS_MAX):
        return excess
    check_address = _address_check(document.get("addressType", ""), addresses)
    errors: Errors = []
    for where, endpoint in items(document, "endpoints", ""):
        path = f"{where}.addresses"
        if not endpoint.get("addresses"):
            errors.append(required(path, "must contain at least 1 address"))
        elif (count := len(endpoint["addresses"])) > _ADDRESSES_MAX:
            errors.append(too_many(path, count, _ADDRESSES_MAX))
        for place, address in items(endpoint, "addresses", where):
            errors += check_address(path, place, address)
        errors += follows(f"{where}.nodeName", endpoint.get("nodeName"), names.dns_subdomain)
        if topology := endpoint.get("deprecatedTopology"):
            errors += max_items(f"{where}.deprecatedTopology", topology, _TOPOLOGY_MAX)
            errors += object_meta.validate_labels(topology, f"{where}.deprecatedTopology")
        if (host := endpoint.get("hostname")) is not None:
            errors += follows(f"{where}.hostname", host, names.dns_label)
        errors += _hints(f"{where}.hints", endpoint.get("hints") or {})
    return errors


def _hints(path: str, hints: Document) -> Errors:
    errors: Errors = []
    for field, rule in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        if excess := max_items(f"{path}.{field}", hints.get(field), _HINTS_MAX):
            return errors + excess
        unique = uniqueness()
        for where, hint in items(hints, field, path):
            name = hint.get("name", "")
            errors += unique(f"{where}.name", name)
            errors += follows(f"{where}.name", name, rule)
    return errors


def _ports(document: Document) -> Errors:
    if excess := max_items("ports", document.get("ports"), _PORTS_MAX):
        return excess
    errors: Errors = []
    unique = uniqueness()
    for where, port in items(document, "ports", ""):
        name = port.get("name") or ""
        errors += named(f"{where}.name", name, names.dns_label, is_required=False)
        errors += unique(f"{where}.name", name)
        errors += one_of(f"{where}.protocol", port.get("protocol"), _PROTOCOLS)
        errors += follows(f"{where}.appProtocol", port.get("appProtocol"), names.qualified_name)
    return errors


# ---- addresses


# Checks one address: the path of the list, that of the address, the address.
_AddressCheck: TypeAlias = Callable[[str, str, str], Errors]


def _address_check(kind: str, addresses: AddressChecks) -> _AddressCheck:
    """Returns the check for a type of addresses; for an unknown type one that finds no errors."""
    match kind:
        case "IPv4":
            return partial(_ipv4, addresses)
        case "IPv6":
            return _ipv6
        case "FQDN":
            return _domain
    return lambda path, place, text: []


def _ipv4(addresses: AddressChecks, path: str, place: str, text: str) -> Errors:
    return addresses.ip(place, text) or _of_family("IPv4", path, place, text)


def _ipv6(path: str, place: str, text: str) -> Errors:
    return follows(place, text, canonical_ip) or _of_family("IPv6", path, place, text)


def _of_family(family: str, path: str, place: str, text: str) -> Errors:
    errors: Errors = []
    found = parse_ip(text)
    if found is None or found.family != family:
        errors.append(invalid(path, text, f"must be an {family} address"))
    return errors + validate_endpoint_ip(place, text)


def _domain(path: str, place: str, text: str) -> Errors:
    """Checks a fully qualified domain name.

    Source: k8s.io/apimachinery, pkg/util/validation, IsFullyQualifiedDomainName.
    """
    if not text:
        return [required(place)]
    name = text.removesuffix(".")
    if problems := names.dns_subdomain(name):
        return [invalid(place, name, ",".join(problems))]
    labels = name.split(".")
    if len(labels) < 2:
        return [invalid(place, name, "should be a domain with at least two segments separated by dots")]
    for label in labels:
        if problems := names.dns_label(label):
            return [invalid(place, label, ",".join(problems))]
    return []


# ---- columns


def _ports_cell(document: Document, now: float) -> str:
    ports = document.get("ports") or ()
    return first_few(
        [str(port["port"]) if "port" in port else port.get("name") or "*" for port in ports], empty="<unset>"
    )


def _endpoints_cell(document: Document, now: float) -> str:
    endpoints = document.get("endpoints") or ()
    return first_few(
        [address for endpoint in endpoints for address in endpoint.get("addresses") or ()], empty="<unset>"
    )
