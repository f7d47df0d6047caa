"""EndpointSlices. Source: pkg/apis/discovery/validation, pkg/registry/discovery/endpointslice."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Container, Mapping
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.columns import first_few
from apiserver.field_errors import Errors, duplicate, invalid, not_supported, required, too_many
from apiserver.meta import names, object_meta
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.compile import Default
from apiserver.validation.checks import immutable, named
from apiserver.validation.documents import items
from apiserver.vocabulary import Document


def builtin_type() -> BuiltinType:
    return BuiltinType(
        "discovery.",
        "v1",
        "endpointslices",
        "EndpointSlice",
        "io.k8s.api.discovery.v1.EndpointSlice",
        defaults=DEFAULTS,
        strategy=Strategy(
            prepare_create=drop_topology,
            validate=validate_endpoint_slice,
            validate_create=validate_addresses,
            warn=warn_about_domain_names,
            update=UpdateStrategy(prepare_endpoint_slice_update, validate_endpoint_slice_update),
            has_generation=True,
        ),
        columns=columns(
            Column(
                "AddressType",
                field_cell("addressType"),
                description="What the addresses are: IPv4, IPv6, or domain names (FQDN).",
            ),
            Column("Ports", _ports_cell, description="The ports of every endpoint, the first few of them."),
            Column("Endpoints", _endpoints_cell, description="The addresses, the first few of them."),
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


def _complete_port(port: Document) -> None:
    if port.get("name") is None:
        port["name"] = ""
    if port.get("protocol") is None:
        port["protocol"] = "TCP"


DEFAULTS: Final[Mapping[str, Default]] = {"io.k8s.api.discovery.v1.EndpointPort": _complete_port}


def drop_topology(document: Document) -> None:
    """Drops what only v1beta1 could write. What is stored of it stays until the endpoints change."""
    for endpoint in document.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)


def prepare_endpoint_slice_update(new: Document, old: Document) -> None:
    """Counts a change of labels as one of the spec, and drops topology from endpoints that change."""
    count_endpoint_slice_update(new, old)
    if new.get("endpoints") != old.get("endpoints"):
        drop_topology(new)


def count_endpoint_slice_update(new: Document, old: Document) -> None:
    meta, before = new["metadata"], old["metadata"]
    has_other_labels = (meta.get("labels") or {}) != (before.get("labels") or {})
    has_other_spec = any(
        new.get(field) != old.get(field) for field in new.keys() | old.keys() if field != "metadata"
    )
    if has_other_labels or has_other_spec:
        meta["generation"] = before.get("generation", 0) + 1


def validate_endpoint_slice(document: Document) -> Errors:
    kind = document.get("addressType", "")
    errors: Errors = []
    if not kind:
        errors.append(required("addressType"))
    elif kind not in _ADDRESS_TYPES:
        errors.append(not_supported("addressType", kind, _ADDRESS_TYPES))
    return errors + _endpoints(document) + _ports(document)


def validate_endpoint_slice_update(new: Document, old: Document) -> Errors:
    """Checks what an update changes: addresses that the slice has already are not checked again."""
    known = {
        address for endpoint in old.get("endpoints") or () for address in endpoint.get("addresses") or ()
    }
    errors = immutable("addressType", new.get("addressType", ""), old.get("addressType", ""))
    return errors + validate_addresses(new, known)


def validate_addresses(document: Document, known: Container[str] = ()) -> Errors:
    """Checks that the addresses are of the slice's type, except those that are known."""
    check = _ADDRESS_CHECKS.get(document.get("addressType", ""))
    if check is None or len(document.get("endpoints") or ()) > _ENDPOINTS_MAX:
        return []
    return [
        error
        for where, endpoint in items(document, "endpoints", "")
        if len(endpoint.get("addresses") or ()) <= _ADDRESSES_MAX
        for index, address in enumerate(endpoint.get("addresses") or ())
        if address not in known
        for error in check(f"{where}.addresses", index, address)
    ]


def warn_about_domain_names(new: Document, old: Document | None) -> list[str]:
    if new.get("addressType") == "FQDN":
        return ["spec.addressType: FQDN endpoints are deprecated"]
    return []


def _endpoints(document: Document) -> Errors:
    count = len(document.get("endpoints") or ())
    if count > _ENDPOINTS_MAX:
        return [too_many("endpoints", count, _ENDPOINTS_MAX)]
    errors: Errors = []
    for where, endpoint in items(document, "endpoints", ""):
        count = len(endpoint.get("addresses") or ())
        if not count:
            errors.append(required(f"{where}.addresses", "must contain at least 1 address"))
        elif count > _ADDRESSES_MAX:
            errors.append(too_many(f"{where}.addresses", count, _ADDRESSES_MAX))
        topology = endpoint.get("deprecatedTopology") or {}
        if len(topology) > _TOPOLOGY_MAX:
            errors.append(too_many(f"{where}.deprecatedTopology", len(topology), _TOPOLOGY_MAX))
        errors += object_meta.validate_labels(topology, f"{where}.deprecatedTopology")
        if (host := endpoint.get("hostname")) is not None:
            errors += [invalid(f"{where}.hostname", host, problem) for problem in names.dns_label(host)]
        errors += _hints(f"{where}.hints", endpoint.get("hints") or {})
    return errors


def _hints(path: str, hints: Document) -> Errors:
    errors: Errors = []
    for field in ("forZones", "forNodes"):
        count = len(hints.get(field) or ())
        if count > _HINTS_MAX:
            errors.append(too_many(f"{path}.{field}", count, _HINTS_MAX))
            continue
        seen: set[str] = set()
        for where, hint in items(hints, field, path):
            name = hint.get("name", "")
            if name in seen:
                errors.append(duplicate(f"{where}.name", name))
            seen.add(name)
            errors += [invalid(f"{where}.name", name, problem) for problem in names.dns_subdomain(name)]
    return errors


def _ports(document: Document) -> Errors:
    count = len(document.get("ports") or ())
    if count > _PORTS_MAX:
        return [too_many("ports", count, _PORTS_MAX)]
    errors: Errors = []
    seen: set[str] = set()
    for where, port in items(document, "ports", ""):
        name, protocol = port.get("name") or "", port.get("protocol")
        errors += named(f"{where}.name", name, names.dns_label, is_required=False)
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        if protocol not in _PROTOCOLS:
            errors.append(not_supported(f"{where}.protocol", protocol or "", _PROTOCOLS))
        if (application := port.get("appProtocol")) is not None:
            problems = names.qualified_name(application)
            errors += [invalid(f"{where}.appProtocol", application, problem) for problem in problems]
    return errors


# ---- addresses


# Checks take the path of the list, and the address with its index.


def _ipv4(path: str, index: int, text: str) -> Errors:
    return _ip(path, index, text, 4)


def _ipv6(path: str, index: int, text: str) -> Errors:
    return _ip(path, index, text, 6)


def _ip(path: str, index: int, text: str, version: int) -> Errors:
    address = _parsed(text)
    if address is None:
        return [invalid(f"{path}[{index}]", text, _NO_IP)]
    errors: Errors = []
    if address.version != version:
        errors.append(invalid(path, text, f"must be an IPv{version} address"))
    return errors + [invalid(f"{path}[{index}]", text, problem) for problem in _special(address, text)]


_NO_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


_LINK_LOCAL_MULTICAST: Final = (
    ipaddress.ip_network("224.0.0.0/24"),
    ipaddress.ip_network("ff02::/16"),
)


def _special(address: ipaddress.IPv4Address | ipaddress.IPv6Address, text: str) -> list[str]:
    """Returns why an address cannot be that of an endpoint."""
    problems = []
    if address.is_unspecified:
        problems.append(f"may not be unspecified ({text})")
    if address.is_loopback:
        problems.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        problems.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if any(address in network for network in _LINK_LOCAL_MULTICAST):
        problems.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return problems


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text) if "%" not in text else None
    except ValueError:
        return None


def _domain(path: str, index: int, text: str) -> Errors:
    path = f"{path}[{index}]"
    if not text:
        return [required(path)]
    name = text.removesuffix(".")
    if problems := names.dns_subdomain(name):
        return [invalid(path, name, ",".join(problems))]
    labels = name.split(".")
    if len(labels) < 2:
        return [invalid(path, name, "should be a domain with at least two segments separated by dots")]
    return [
        invalid(path, label, ",".join(problems)) for label in labels if (problems := names.dns_label(label))
    ]


_ADDRESS_CHECKS: Final[Mapping[str, Callable[[str, int, str], Errors]]] = {
    "IPv4": _ipv4,
    "IPv6": _ipv6,
    "FQDN": _domain,
}


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
