"""What claims ask for: devices, constraints on them and their configuration.

Source: pkg/apis/resource/validation, pkg/apis/resource/v1/defaults.go. Expressions are checked for their
length only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.field_errors import Errors, duplicate, invalid, not_supported, required, too_long, too_many
from apiserver.meta import names
from apiserver.meta.names import byte_length
from apiserver.schema.compile import Default
from apiserver.validation.checks import named, one_of
from apiserver.validation.defaults import in_turn, setting
from apiserver.validation.documents import items
from apiserver.vocabulary import Document

_PACKAGE: Final = "io.k8s.api.resource.v1."
LIST_MAX: Final = 32
_ALTERNATIVES_MAX: Final = 8
_EXPRESSION_BYTES_MAX: Final = 10 * 1024
_MODES: Final = ("All", "ExactCount")


def complete_request(request: Document) -> None:
    request["allocationMode"] = request.get("allocationMode") or "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1


DEFAULTS: Final[Mapping[str, Default]] = {
    f"{_PACKAGE}ExactDeviceRequest": complete_request,
    f"{_PACKAGE}DeviceSubRequest": complete_request,
    f"{_PACKAGE}DeviceToleration": in_turn(setting(operator="Equal")),
}

# The names of requests, each with the names of its alternatives.
RequestNames = Mapping[str, frozenset[str]]


def validate_claim_spec(path: str, spec: Document) -> Errors:
    devices, where = spec.get("devices", {}), f"{path}.devices"
    known = request_names(devices)
    return [
        *validate_items(where, devices, "requests", LIST_MAX, _request),
        *validate_unique(where, devices, "requests", lambda request: request.get("name", "")),
        *validate_items(
            where, devices, "constraints", LIST_MAX, lambda at, each: _constraint(at, each, known)
        ),
        *validate_items(
            where, devices, "config", LIST_MAX, lambda at, each: validate_claim_configuration(at, each, known)
        ),
    ]


def request_names(devices: Document) -> RequestNames:
    return {
        request.get("name", ""): frozenset(
            each.get("name", "") for each in request.get("firstAvailable") or ()
        )
        for request in devices.get("requests") or ()
    }


def _request(path: str, request: Document) -> Errors:
    errors = validate_label(f"{path}.name", request.get("name", ""))
    alternatives, exactly = request.get("firstAvailable") or [], request.get("exactly")
    if not alternatives and exactly is None:
        text = "exactly one of `exactly` or `firstAvailable` is required"
        errors.append(required(path, text))
    elif alternatives and exactly is not None:
        text = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        errors.append(invalid(path, None, text))
    elif exactly is not None:
        errors += _devices(f"{path}.exactly", exactly)
    else:
        errors += validate_items(path, request, "firstAvailable", _ALTERNATIVES_MAX, _alternative)
        errors += validate_unique(path, request, "firstAvailable", lambda each: each.get("name", ""))
    return errors


def _alternative(path: str, request: Document) -> Errors:
    return validate_label(f"{path}.name", request.get("name", "")) + _devices(path, request)


def _devices(path: str, request: Document) -> Errors:
    """Checks which devices are asked for, and how many."""
    errors = named(f"{path}.deviceClassName", request.get("deviceClassName"), names.dns_subdomain)
    errors += validate_selectors(path, request)
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode not in _MODES:
        errors.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    elif mode == "All" and count:
        text = "must not be specified when allocationMode is 'All'"
        errors.append(invalid(f"{path}.count", count, text))
    elif mode == "ExactCount" and count <= 0:
        errors.append(invalid(f"{path}.count", count, "must be greater than zero"))
    for where, toleration in items(request, "tolerations", path):
        errors += _toleration(where, toleration)
    return errors


_OPERATORS: Final = ("Equal", "Exists")
_EFFECTS: Final = ("NoExecute", "NoSchedule")


def _toleration(path: str, toleration: Document) -> Errors:
    key, value, effect = toleration.get("key", ""), toleration.get("value", ""), toleration.get("effect", "")
    errors = named(f"{path}.key", key, names.qualified_name, is_required=False)
    operator = toleration.get("operator", "")
    if operator not in _OPERATORS:
        errors.append(not_supported(f"{path}.operator", operator, _OPERATORS))
    elif operator == "Exists" and value:
        errors.append(invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        errors += [invalid(f"{path}.value", value, problem) for problem in names.label_value(value)]
    if operator == "Equal" and not key:
        errors.append(required(f"{path}.key"))
    return errors + (one_of(f"{path}.effect", effect, _EFFECTS) if effect else [])


def validate_selectors(path: str, value: Document) -> Errors:
    return validate_items(path, value, "selectors", LIST_MAX, _selector)


def _selector(path: str, selector: Document) -> Errors:
    cel = selector.get("cel")
    if cel is None:
        return [required(f"{path}.cel")]
    if byte_length(cel.get("expression", "")) > _EXPRESSION_BYTES_MAX:
        return [too_long(f"{path}.cel.expression", _EXPRESSION_BYTES_MAX)]
    return []


def _constraint(path: str, constraint: Document, known: RequestNames) -> Errors:
    errors = _references(path, constraint, known)
    attributes = [field for field in ("matchAttribute", "distinctAttribute") if constraint.get(field)]
    if not attributes:
        errors.append(required(f"{path}.matchAttribute"))
    for field in attributes:
        errors += _full_attribute_name(f"{path}.{field}", constraint[field])
    return errors


_REFERENCE_TEXT: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def _references(path: str, value: Document, known: RequestNames) -> Errors:
    errors = validate_items(
        path, value, "requests", LIST_MAX, lambda at, name: validate_request_reference(at, name, known)
    )
    return errors + validate_unique(path, value, "requests", lambda name: name)


def validate_request_reference(path: str, name: str, known: RequestNames) -> Errors:
    request, slash, alternative = name.partition("/")
    if "/" in alternative:
        return [invalid(path, name, _REFERENCE_TEXT)]
    errors = validate_label(path, request) + (validate_label(path, alternative) if slash else [])
    if request not in known or (slash and alternative not in known[request]):
        errors.append(invalid(path, name, _REFERENCE_TEXT))
    return errors


def validate_claim_configuration(path: str, value: Document, known: RequestNames) -> Errors:
    return _references(path, value, known) + validate_configuration(path, value)


def validate_configuration(path: str, value: Document) -> Errors:
    opaque = value.get("opaque")
    if opaque is None:
        return [required(f"{path}.opaque")]
    errors = validate_csi_driver_name(f"{path}.opaque.driver", opaque.get("driver", ""))
    if opaque.get("parameters") is None:
        errors.append(required(f"{path}.opaque.parameters"))
    return errors


# ---- names

_POOL_BYTES_MAX: Final = 253
_ID_BYTES_MAX: Final = 32
_is_c_identifier = re.compile("[A-Za-z_][A-Za-z0-9_]*").fullmatch
_C_IDENTIFIER_TEXT: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)


def validate_label(path: str, name: str) -> Errors:
    return [invalid(path, name, problem) for problem in names.dns_label(name)]


def validate_pool_name(path: str, name: str) -> Errors:
    if not name:
        return [required(path)]
    errors: Errors = [too_long(path, _POOL_BYTES_MAX)] if byte_length(name) > _POOL_BYTES_MAX else []
    return errors + [
        invalid(path, part, problem)
        for part in name.split("/")[:LIST_MAX]
        for problem in names.dns_subdomain(part)
    ]


def validate_attribute_name(path: str, name: str) -> Errors:
    """Checks a name like `identifier` or `domain/identifier`."""
    domain, slash, identifier = name.rpartition("/")
    errors: Errors = []
    if slash and not domain:
        errors.append(invalid(path, "", "the domain must not be empty"))
    elif slash:
        errors += validate_csi_driver_name(path, domain)
    if slash and not identifier:
        return [*errors, invalid(path, "", "the name must not be empty")]
    if byte_length(identifier) > _ID_BYTES_MAX:
        errors.append(too_long(path, _ID_BYTES_MAX))
    return (
        errors if _is_c_identifier(identifier) else [*errors, invalid(path, identifier, _C_IDENTIFIER_TEXT)]
    )


def _full_attribute_name(path: str, name: str) -> Errors:
    errors = validate_attribute_name(path, name)
    if "/" not in name:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(invalid(path, name, text))
    return errors


# ---- lists


def validate_items(
    path: str, value: Document, field: str, limit: int, check: Callable[[str, Any], Errors]
) -> Errors:
    """Checks all items of a list; if there are more than `limit`, the answer is only that."""
    count = len(value.get(field) or ())
    if count > limit:
        return [too_many(f"{path}.{field}", count, limit)]
    return [error for where, item in items(value, field, path) for error in check(where, item)]


def validate_unique(path: str, value: Document, field: str, key: Callable[[Any], str]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for where, item in items(value, field, path):
        identity = key(item)
        if identity in seen:
            errors.append(duplicate(where, identity))
        seen.add(identity)
    return errors
