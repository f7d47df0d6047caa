"""Claims of devices, templates of claims, and classes of devices.

Source: pkg/apis/resource/validation, pkg/apis/resource/v1/defaults.go. Expressions are checked for their
length only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from apiserver.catalogue.pod_specs.resource_requirements import is_extended
from apiserver.catalogue.pod_specs.scheduling import validate_node_selector
from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.catalogue.rules.lengths import byte_length
from apiserver.field_errors import duplicate, forbidden, invalid, not_supported, required, too_long, too_many
from apiserver.meta import names, object_meta
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors, immutable, in_turn, items, named, one_of, setting
from apiserver.vocabulary import Document

_PACKAGE: Final = "io.k8s.api.resource.v1."
LIST_MAX: Final = 32
_ALTERNATIVES_MAX: Final = 8
_CONSUMERS_MAX: Final = 256
_EXPRESSION_BYTES_MAX: Final = 10 * 1024
_MODES: Final = ("All", "ExactCount")


def _complete_request(request: Document) -> None:
    request["allocationMode"] = request.get("allocationMode") or "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1


DEFAULTS: Final[Mapping[str, Default]] = {
    f"{_PACKAGE}ExactDeviceRequest": _complete_request,
    f"{_PACKAGE}DeviceSubRequest": _complete_request,
    f"{_PACKAGE}DeviceToleration": in_turn(setting(operator="Equal")),
}


# ---- the three kinds


def validate_claim_create(document: Document) -> Errors:
    return _claim_spec("spec", document.get("spec", {}))


def validate_claim_update(new: Document, old: Document) -> Errors:
    return immutable("spec", new.get("spec"), old.get("spec"))


def validate_template_create(document: Document) -> Errors:
    template = document.get("spec", {})
    meta = template.get("metadata") or {}
    errors = object_meta.validate_labels(meta.get("labels"), "spec.metadata.labels")
    errors += [
        invalid("spec.metadata.annotations", key, problem)
        for key in meta.get("annotations") or ()
        for problem in names.qualified_name(key.lower())
    ]
    return errors + _claim_spec("spec.spec", template.get("spec", {}))


def validate_template_update(new: Document, old: Document) -> Errors:
    return immutable("spec", new.get("spec"), old.get("spec"))


def validate_device_class(document: Document) -> Errors:
    spec = document.get("spec", {})
    errors = _selectors("spec", spec)
    errors += _each("spec", spec, "config", LIST_MAX, _configuration)
    if (name := spec.get("extendedResourceName")) is not None and not is_extended(name):
        text = "must be a valid extended resource name"
        errors.append(invalid("spec.extendedResourceName", name, text))
    return errors


# ---- what a claim asks for

# The names of requests, and those of their alternatives.
RequestNames = Mapping[str, frozenset[str]]


def _claim_spec(path: str, spec: Document) -> Errors:
    devices, where = spec.get("devices", {}), f"{path}.devices"
    known = request_names(devices)
    return [
        *_each(where, devices, "requests", LIST_MAX, _request),
        *_duplicates(where, devices, "requests", lambda request: request.get("name", "")),
        *_each(where, devices, "constraints", LIST_MAX, lambda at, each: _constraint(at, each, known)),
        *_each(
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
    errors = label(f"{path}.name", request.get("name", ""))
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
        errors += _each(path, request, "firstAvailable", _ALTERNATIVES_MAX, _alternative)
        errors += _duplicates(path, request, "firstAvailable", lambda each: each.get("name", ""))
    return errors


def _alternative(path: str, request: Document) -> Errors:
    return label(f"{path}.name", request.get("name", "")) + _devices(path, request)


def _devices(path: str, request: Document) -> Errors:
    """Which devices, and how many."""
    errors = named(f"{path}.deviceClassName", request.get("deviceClassName"), names.dns_subdomain)
    errors += _selectors(path, request)
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


def _selectors(path: str, value: Document) -> Errors:
    return _each(path, value, "selectors", LIST_MAX, _selector)


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
    errors = _each(path, value, "requests", LIST_MAX, lambda at, name: _reference(at, name, known))
    return errors + _duplicates(path, value, "requests", lambda name: name)


def _reference(path: str, name: str, known: RequestNames) -> Errors:
    request, slash, alternative = name.partition("/")
    if "/" in alternative:
        return [invalid(path, name, _REFERENCE_TEXT)]
    errors = label(path, request) + (label(path, alternative) if slash else [])
    if request not in known or (slash and alternative not in known[request]):
        errors.append(invalid(path, name, _REFERENCE_TEXT))
    return errors


def validate_claim_configuration(path: str, value: Document, known: RequestNames) -> Errors:
    return _references(path, value, known) + _configuration(path, value)


def _configuration(path: str, value: Document) -> Errors:
    opaque = value.get("opaque")
    if opaque is None:
        return [required(f"{path}.opaque")]
    errors = validate_csi_driver_name(f"{path}.opaque.driver", opaque.get("driver", ""))
    if opaque.get("parameters") is None:
        errors.append(required(f"{path}.opaque.parameters"))
    return errors


# ---- the status of a claim


def validate_claim_status_update(new: Document, old: Document) -> Errors:
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation, consumers = status.get("allocation"), status.get("reservedFor") or []
    path = "status.reservedFor"
    errors = _each("status", status, "reservedFor", _CONSUMERS_MAX, _consumer)
    errors += _duplicates("status", status, "reservedFor", lambda consumer: consumer.get("uid", ""))
    if consumers and allocation is None:
        errors.append(forbidden(path, "may not be specified when `allocated` is not set"))
    elif "deletionTimestamp" in new["metadata"] and any(
        consumer not in (before.get("reservedFor") or []) for consumer in consumers[:_CONSUMERS_MAX]
    ):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(forbidden(path, text))
    if allocation is not None and before.get("allocation") is not None:
        errors += immutable("status.allocation", allocation, before["allocation"])
    elif allocation is not None:
        known = request_names(new.get("spec", {}).get("devices", {}))
        errors += _allocation("status.allocation", allocation, known)
    return errors


def _consumer(path: str, consumer: Document) -> Errors:
    return [required(f"{path}.{field}") for field in ("resource", "name", "uid") if not consumer.get(field)]


_CONFIG_SOURCES: Final = ("FromClaim", "FromClass")


def _allocation(path: str, allocation: Document, known: RequestNames) -> Errors:
    devices, where = allocation.get("devices", {}), f"{path}.devices"
    errors = _each(where, devices, "results", LIST_MAX, lambda at, each: _result(at, each, known))
    errors += _each(where, devices, "config", 2 * LIST_MAX, lambda at, each: _allocated(at, each, known))
    if (selector := allocation.get("nodeSelector")) is not None:
        errors += validate_node_selector(f"{path}.nodeSelector", selector)
    return errors


def _result(path: str, result: Document, known: RequestNames) -> Errors:
    return [
        *_reference(f"{path}.request", result.get("request", ""), known),
        *validate_csi_driver_name(f"{path}.driver", result.get("driver", "")),
        *validate_pool_name(f"{path}.pool", result.get("pool", "")),
        *label(f"{path}.device", result.get("device", "")),
    ]


def _allocated(path: str, value: Document, known: RequestNames) -> Errors:
    source = one_of(f"{path}.source", value.get("source"), _CONFIG_SOURCES, required_text="")
    return source + validate_claim_configuration(path, value, known)


# ---- names

_POOL_BYTES_MAX: Final = 253
_ID_BYTES_MAX: Final = 32
_is_c_identifier = re.compile("[A-Za-z_][A-Za-z0-9_]*").fullmatch
_C_IDENTIFIER_TEXT: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)


def label(path: str, name: str) -> Errors:
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
    """`identifier` or `domain/identifier`."""
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


def _each(path: str, value: Document, field: str, limit: int, check: Callable[[str, Any], Errors]) -> Errors:
    """All items; or, if there are too many, nothing but that."""
    count = len(value.get(field) or ())
    if count > limit:
        return [too_many(f"{path}.{field}", count, limit)]
    return [error for where, item in items(value, field, path) for error in check(where, item)]


def _duplicates(path: str, value: Document, field: str, key: Callable[[Any], str]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for where, item in items(value, field, path):
        identity = key(item)
        if identity in seen:
            errors.append(duplicate(where, identity))
        seen.add(identity)
    return errors
