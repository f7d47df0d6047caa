"""Validation of claims' requests for devices, with constraints and configuration.

Source: pkg/apis/resource/validation, pkg/apis/resource/v1/defaults.go (release 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.catalogue.resource.device_selectors import EXPRESSION_BYTES_MAX, Selector
from apiserver.catalogue.resource.device_taints import validate_toleration
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, not_supported, required, too_long, too_many
from apiserver.meta.names import byte_length
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import Default
from apiserver.schema.validation.checks import follows, max_bytes, named, no_repeated_items
from apiserver.schema.validation.defaults import in_turn, setting
from apiserver.schema.validation.documents import items

_PACKAGE: Final = "io.k8s.api.resource.v1."
LIST_MAX: Final = 32
_ALTERNATIVES_MAX: Final = 8
_PARAMETERS_BYTES_MAX: Final = 10 * 1024
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
        *validate_set(where, devices, "requests", LIST_MAX, _request, name_of),
        *validate_items(
            where, devices, "constraints", LIST_MAX, lambda at, each: _constraint(at, each, known)
        ),
        *validate_items(
            where, devices, "config", LIST_MAX, lambda at, each: validate_claim_configuration(at, each, known)
        ),
    ]


def name_of(value: Document) -> str:
    return str(value.get("name", ""))


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
        errors += validate_set(path, request, "firstAvailable", _ALTERNATIVES_MAX, _alternative, name_of)
    return errors


def _alternative(path: str, request: Document) -> Errors:
    return validate_label(f"{path}.name", request.get("name", "")) + _devices(path, request)


def _devices(path: str, request: Document) -> Errors:
    """Checks the class, the selectors and the count of requested devices."""
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
    return errors + validate_items(path, request, "tolerations", None, validate_toleration)


def validate_selectors(path: str, value: Document) -> Errors:
    return validate_items(path, value, "selectors", LIST_MAX, _selector)


def _selector(path: str, selector: Document) -> Errors:
    cel = selector.get("cel")
    if cel is None:
        return [required(f"{path}.cel")]
    return max_bytes(f"{path}.cel.expression", cel.get("expression"), EXPRESSION_BYTES_MAX)


def claim_selectors(path: str, spec: Document) -> Iterator[Selector]:
    """Yields the selector expressions of a claim, without those that are skipped in Kubernetes."""
    for where, request in _bounded_items(f"{path}.devices", spec.get("devices", {}), "requests", LIST_MAX):
        exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
        if exactly is None:
            for each, alternative in _bounded_items(where, request, "firstAvailable", _ALTERNATIVES_MAX):
                yield from selectors_of(each, alternative)
        elif not alternatives:
            yield from selectors_of(f"{where}.exactly", exactly)


def selectors_of(path: str, holder: Document) -> Iterator[Selector]:
    """Yields the expressions of a request's or a class's selectors. path: that of the holder."""
    for where, selector in _bounded_items(path, holder, "selectors", LIST_MAX):
        expression = (selector.get("cel") or {}).get("expression", "")
        if selector.get("cel") is not None and byte_length(expression) <= EXPRESSION_BYTES_MAX:
            yield Selector(f"{where}.cel.expression", expression)


def _bounded_items(path: str, value: Document, field: str, limit: int) -> Iterable[tuple[str, Document]]:
    return items(value, field, path) if len(value.get(field) or ()) <= limit else ()


_NO_ATTRIBUTE: Final = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
)


def _constraint(path: str, constraint: Document, known: RequestNames) -> Errors:
    """Checks a constraint. As in Kubernetes, of two attributes only the matching one counts."""
    errors = _references(path, constraint, known)
    for field in ("matchAttribute", "distinctAttribute"):
        if (name := constraint.get(field)) is not None:
            return errors + _full_attribute_name(f"{path}.{field}", name)
    return [*errors, required(path, _NO_ATTRIBUTE)]


_REFERENCE_TEXT: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def _references(path: str, value: Document, known: RequestNames) -> Errors:
    return validate_set(
        path,
        value,
        "requests",
        LIST_MAX,
        lambda at, name: validate_request_reference(at, name, known),
        lambda name: name,
    )


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
    if (parameters := opaque.get("parameters")) is None:
        return [*errors, required(f"{path}.opaque.parameters")]
    return errors + validate_size(f"{path}.opaque.parameters", parameters, _PARAMETERS_BYTES_MAX)


def validate_size(path: str, value: Any, bytes_max: int) -> Errors:
    """Checks the length of an object of any content, as JSON without blanks."""
    return [too_long(path, bytes_max)] if len(orjson.dumps(value)) > bytes_max else []


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
    return follows(path, name, names.dns_label)


def validate_pool_name(path: str, name: str) -> Errors:
    if not name:
        return [required(path)]
    return max_bytes(path, name, _POOL_BYTES_MAX) + [
        invalid(path, part, problem)
        for part in name.split("/")[:LIST_MAX]
        for problem in names.dns_subdomain(part)
    ]


def validate_attribute_name(path: str, name: str) -> Errors:
    """Checks a name like `identifier` or `domain/identifier`. As in Kubernetes, it may have more slashes."""
    if len(name) <= _ID_BYTES_MAX and _is_c_identifier(name):
        return []  # as nearly all are
    domain, slash, identifier = name.partition("/")
    if not slash:
        return _identifier(path, name)
    if "/" in identifier:
        return []
    errors = validate_csi_driver_name(path, domain) if domain else []
    if not domain:
        errors.append(invalid(path, "", "the domain must not be empty"))
    if not identifier:
        return [*errors, invalid(path, "", "the name must not be empty")]
    return errors + _identifier(path, identifier)


def _identifier(path: str, identifier: str) -> Errors:
    errors = max_bytes(path, identifier, _ID_BYTES_MAX)
    if not _is_c_identifier(identifier):
        errors.append(invalid(path, identifier, _C_IDENTIFIER_TEXT))
    return errors


def _full_attribute_name(path: str, name: str) -> Errors:
    errors = validate_attribute_name(path, name)
    if "/" not in name:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(invalid(path, name, text))
    return errors


# ---- lists


def validate_items(
    path: str, value: Document, field: str, limit: int | None, check: Callable[[str, Any], Errors]
) -> Errors:
    """Checks all items of a list; with more than `limit` items, returns only that error."""
    count = len(value.get(field) or ())
    if limit is not None and count > limit:
        return [too_many(f"{path}.{field}", count, limit)]
    return [error for where, item in items(value, field, path) for error in check(where, item)]


def validate_set(
    path: str,
    value: Document,
    field: str,
    limit: int | None,
    check: Callable[[str, Any], Errors],
    key: Callable[[Any], str],
) -> Errors:
    """Checks all items of a list as `validate_items` does, and that keys are unique."""
    errors = validate_items(path, value, field, limit, check)
    if limit is not None and len(value.get(field) or ()) > limit:
        return errors
    return errors + no_repeated_items(f"{path}.{field}", map(key, value.get(field) or ()))
