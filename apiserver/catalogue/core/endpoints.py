"""Endpoints. Source: pkg/apis/core/validation, ValidateEndpoints."""

from __future__ import annotations

from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import CORE, DEFAULT_GATES, BuiltinType
from apiserver.catalogue.common.columns import first_few
from apiserver.catalogue.core.services.validation import validate_endpoint_ip
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.addresses import STRICT_ADDRESSES, AddressChecks, ip_warnings
from apiserver.schema.validation.checks import named, one_of, port_number
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at, items


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    addresses = AddressChecks(gates.is_on(STRICT_ADDRESSES))
    return BuiltinType(
        "",
        "v1",
        "endpoints",
        "Endpoints",
        short_names=("ep",),
        defaults={f"{CORE}EndpointPort": setting(protocol="TCP")},
        strategy=Strategy(
            validate_ratcheting=partial(validate_endpoints, addresses=addresses),
            warn=warn_endpoints,
            allows_create_on_update=True,
        ),
        columns=columns(Column("Endpoints", _endpoints, _SUBSETS_TEXT), AGE),
    )


_ADDRESSES: Final = ("addresses", "notReadyAddresses")


_CONTROLLER: Final = "endpoint-controller"


def validate_endpoints(document: Document, old: Document | None, *, addresses: AddressChecks) -> Errors:
    """Checks endpoints. Unchanged subsets are not checked: they may be older than the rules."""
    if old is not None and document.get("subsets") == old.get("subsets"):
        return []
    errors: Errors = []
    for path, subset in items(document, "subsets", ""):
        if not any(subset.get(field) for field in _ADDRESSES):
            errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for field in _ADDRESSES:
            for where, address in items(subset, field, path):
                errors += _address(where, address, addresses)
        needs_name = len(subset.get("ports") or ()) > 1
        for where, port in items(subset, "ports", path):
            errors += _port(where, port, needs_name)
    return errors


def _address(path: str, address: Document, addresses: AddressChecks) -> Errors:
    ip = address.get("ip", "")
    errors = addresses.ip(f"{path}.ip", ip)
    errors += named(f"{path}.hostname", address.get("hostname"), names.dns_label, is_required=False)
    if (node := address.get("nodeName")) is not None:
        errors += [invalid(f"{path}.nodeName", node, problem) for problem in names.dns_subdomain(node)]
    return errors + validate_endpoint_ip(f"{path}.ip", ip)


def _port(path: str, port: Document, needs_name: bool) -> Errors:
    errors = named(f"{path}.name", port.get("name"), names.dns_label, is_required=needs_name)
    errors += port_number(f"{path}.port", port.get("port"))
    errors += one_of(f"{path}.protocol", port.get("protocol"), ("SCTP", "TCP", "UDP"), required_text="")
    if (protocol := port.get("appProtocol")) is not None:
        errors += [invalid(f"{path}.appProtocol", protocol, text) for text in names.qualified_name(protocol)]
    return errors


def warn_endpoints(new: Document, old: Document | None) -> list[str]:
    if at(new, "metadata", "labels", "endpoints.kubernetes.io/managed-by") == _CONTROLLER:
        return []  # It writes addresses as they should be.
    return [
        warning
        for path, subset in items(new, "subsets", "")
        for field in _ADDRESSES
        for where, address in items(subset, field, path)
        for warning in ip_warnings(f"{where}.ip", address.get("ip", ""))
    ]


# ---- columns


def _endpoints(document: Document, now: float) -> str:
    found = []
    for subset in document.get("subsets") or ():
        addresses = subset.get("addresses") or ()
        ports = subset.get("ports") or ()
        found += [f"{a.get('ip')}:{p.get('port')}" for p in ports for a in addresses]
        if not ports:
            found += [str(a.get("ip")) for a in addresses]
    return first_few(found, empty="<none>")


_SUBSETS_TEXT: Final = (
    "The addresses and ports behind the service that are ready, the first few of them. Those that are not "
    "ready are left out."
)
