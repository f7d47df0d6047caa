"""What is set, checked and told of Endpoints. Source: pkg/apis/core/validation, ValidateEndpoints."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.catalogue.core.services.validation import validate_non_special_ip, warn_ip
from apiserver.field_errors import invalid, required
from apiserver.meta import names
from apiserver.schema.compile import Default
from apiserver.validation import checks
from apiserver.validation.checks import CORE, Errors, items, named, one_of, setting
from apiserver.vocabulary import Document

DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType({f"{CORE}EndpointPort": setting(protocol="TCP")})

_ADDRESSES: Final = ("addresses", "notReadyAddresses")


def validate_endpoints(document: Document) -> Errors:
    errors: Errors = []
    for path, subset in items(document, "subsets", ""):
        if not any(subset.get(field) for field in _ADDRESSES):
            errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for field in _ADDRESSES:
            for where, address in items(subset, field, path):
                errors += _address(where, address)
        needs_name = len(subset.get("ports") or ()) > 1
        for where, port in items(subset, "ports", path):
            errors += _port(where, port, needs_name)
    return errors


def _address(path: str, address: Document) -> Errors:
    ip = address.get("ip", "")
    wrong = checks.ip_address(f"{path}.ip", ip)
    errors = wrong + named(f"{path}.hostname", address.get("hostname"), names.dns_label, is_required=False)
    if (node := address.get("nodeName")) is not None:
        errors += [invalid(f"{path}.nodeName", node, problem) for problem in names.dns_subdomain(node)]
    return errors + ([] if wrong else validate_non_special_ip(f"{path}.ip", ip))


def _port(path: str, port: Document, needs_name: bool) -> Errors:
    errors = named(f"{path}.name", port.get("name"), names.dns_label, is_required=needs_name)
    errors += checks.port_number(f"{path}.port", port.get("port"))
    errors += one_of(f"{path}.protocol", port.get("protocol"), ("SCTP", "TCP", "UDP"), required_text="")
    if (protocol := port.get("appProtocol")) is not None:
        errors += [invalid(f"{path}.appProtocol", protocol, text) for text in names.qualified_name(protocol)]
    return errors


def warn_endpoints(new: Document, old: Document | None) -> list[str]:
    return [
        told
        for path, subset in items(new, "subsets", "")
        for field in _ADDRESSES
        for where, address in items(subset, field, path)
        for told in warn_ip(f"{where}.ip", address.get("ip", ""))
    ]
