"""Validation of the devices of a ResourceSlice: attributes, node, and use of shared counters.

Source: pkg/apis/resource/validation, validateDevice (release 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from apiserver.catalogue.pod_specs.resource_requirements import is_native_resource
from apiserver.catalogue.pod_specs.scheduling import validate_node_selector
from apiserver.catalogue.resource.capacity_policies import validate_capacity
from apiserver.catalogue.resource.device_requests import (
    validate_attribute_name,
    validate_items,
    validate_label,
    validate_set,
)
from apiserver.catalogue.resource.device_taints import validate_taint
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, not_found, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import (
    follows,
    max_bytes,
    max_items,
    named,
    no_repeated_items,
    quantity_of,
    without_nulls,
)

_FEATURES_MAX: Final = 32
_ATTRIBUTE_VALUES_MAX: Final = 48
_VALUE_BYTES_MAX: Final = 64
_TAINTS_MAX: Final = 16
_CONSUMPTIONS_MAX: Final = 2
_COUNTERS_MAX: Final = 32
_BINDING_CONDITIONS_MAX: Final = 4
# Paths show the keys of maps, longer ones without their middle. The longest name of a feature has a
# domain, a slash, and an identifier.
_FEATURE_KEY_MAX: Final = 63 + 1 + 32

# Fields of an attribute, of which one is set.
_SINGLE: Final = ("bool", "int", "string", "version")
_LISTS: Final = ("bools", "ints", "strings", "versions")
_LIST_FIELDS: Final = frozenset(_LISTS)


def validate_device(path: str, device: Document, old: Document | None, *, has_own_place: bool) -> Errors:
    """Checks a device. Unchanged capacities and taints are not checked again.

    old: the stored device; None if it is new. has_own_place: whether each device of the slice names its own
        node.
    """
    errors = validate_label(f"{path}.name", device.get("name", ""))
    errors += _features(path, device, old)
    if _is_changed("taints", device, old):
        errors += validate_items(path, device, "taints", _TAINTS_MAX, validate_taint)
    if device.get("consumesCounters"):
        errors += validate_set(
            path,
            device,
            "consumesCounters",
            _CONSUMPTIONS_MAX,
            lambda where, each: validate_counters(where, each, "counterSet"),
            lambda each: each.get("counterSet", ""),
        )
    errors += _own_place(path, device) if has_own_place else _no_own_place(path, device)
    errors += validate_binding_conditions(path, device)
    return errors + _node_resources(f"{path}.nodeAllocatableResourceMappings", device)


def _is_changed(field: str, device: Document, old: Document | None) -> bool:
    if old is None:
        return True
    return bool(without_nulls(device.get(field) or None) != without_nulls(old.get(field) or None))


# ---- attributes and capacities


def _features(path: str, device: Document, old: Document | None) -> Errors:
    attributes: Mapping[str, Document] = device.get("attributes") or {}
    capacity: Mapping[str, Document] = device.get("capacity") or {}
    errors: Errors = []
    if (total := len(attributes) + len(capacity)) > _FEATURES_MAX:
        text = f"the total number of attributes and capacities must not exceed {_FEATURES_MAX}"
        errors.append(invalid(path, total, text))
    if (total := sum([_value_count(each) for each in attributes.values()])) > _ATTRIBUTE_VALUES_MAX:
        text = f"the total number of attribute values must not exceed {_ATTRIBUTE_VALUES_MAX}"
        errors.append(invalid(path, total, text))
    errors += _named_features(f"{path}.attributes", attributes, _attribute)
    if _is_changed("capacity", device, old):
        is_shared = bool(device.get("allowMultipleAllocations"))
        errors += _named_features(
            f"{path}.capacity",
            capacity,
            lambda where, each: validate_capacity(where, each, is_shared=is_shared),
        )
    return errors


def _named_features(
    path: str, features: Mapping[str, Document], check: Callable[[str, Document], Errors]
) -> Errors:
    errors: Errors = []
    for name, feature in features.items():
        errors += validate_attribute_name(path, name)
        errors += check(f"{path}[{_shown_key(name, _FEATURE_KEY_MAX)}]", feature)
    return errors


def _shown_key(key: str, most: int) -> str:
    if len(key) <= most:
        return key
    room = most - len("...")
    return f"{key[: (room + 1) // 2]}...{key[-(room // 2) :]}"


def has_lists(attribute: Document) -> bool:
    """Whether an attribute has a list of values, which may be empty."""
    # Hardly any has, and a slice has many attributes.
    return not _LIST_FIELDS.isdisjoint(attribute) and any(
        attribute.get(field) is not None for field in _LISTS
    )


def _value_count(attribute: Document) -> int:
    return (sum(len(attribute.get(field) or ()) for field in _LISTS) or 1) if has_lists(attribute) else 1


_NUMBER: Final = r"(0|[1-9][0-9]*)"
_PRERELEASE: Final = r"(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
is_semver = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
).fullmatch


def _attribute(path: str, value: Document) -> Errors:
    errors: Errors = []
    if (text := value.get("string")) is not None:
        errors += _text(f"{path}.string", text)
    if (version := value.get("version")) is not None:
        errors += _version(f"{path}.version", version)
    count = sum([value.get(field) is not None for field in _SINGLE])
    if len(value) > count and has_lists(value):
        count += sum(value.get(field) is not None for field in _LISTS)
        errors += _lists(path, value)
    if count != 1:
        errors.append(invalid(path, value or "", "exactly one value must be specified"))
    return errors


def _lists(path: str, value: Document) -> Errors:
    errors: Errors = []
    for field in _LISTS:
        found = value.get(field)
        if found is not None and not found:
            errors.append(invalid(f"{path}.{field}", found, "must not be empty if specified"))
    errors += validate_items(path, value, "strings", None, _text)
    return errors + validate_items(path, value, "versions", None, _version)


def _text(path: str, text: str) -> Errors:
    return max_bytes(path, text, _VALUE_BYTES_MAX)


def _version(path: str, version: str) -> Errors:
    errors: Errors = []
    # What is too long is no version that anybody has, and need not be read to its end.
    if not is_semver(version[: _VALUE_BYTES_MAX + 1]):
        text = "must be a string compatible with semver.org spec 2.0.0"
        errors.append(invalid(path, version, text))
    return errors + _text(path, version)


# ---- counters


def validate_counters(path: str, holder: Document, name_field: str) -> Errors:
    """Checks a set of counters, or a device's use of one. name_field: the field with the name of the set."""
    errors = named(f"{path}.{name_field}", holder.get(name_field), names.dns_label)
    counters, where = holder.get("counters") or {}, f"{path}.counters"
    if not counters:
        return [*errors, required(where)]
    if excess := max_items(where, counters, _COUNTERS_MAX):
        return errors + excess
    return errors + [error for name in counters for error in validate_label(where, name)]


# ---- where a device is


_OWN_PLACE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is "
    "set to true in the ResourceSlice spec"
)
_NO_OWN_PLACE: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in "
    "the ResourceSlice spec"
)
_PLACES: Final = ("nodeName", "nodeSelector", "allNodes")


def _own_place(path: str, device: Document) -> Errors:
    name, selector, everywhere = (device.get(field) for field in _PLACES)
    errors: Errors = []
    if name == "":
        errors.append(invalid(f"{path}.nodeName", name, "must not be empty"))
    elif name is not None:
        errors += follows(f"{path}.nodeName", name, names.dns_subdomain)
    if selector is not None:
        errors += validate_node_selector(f"{path}.nodeSelector", selector)
    if everywhere is False:
        errors.append(invalid(f"{path}.allNodes", everywhere, "must be either unset or set to true"))
    chosen = [f"`{place}`" for place in _PLACES if device.get(place) not in (None, False, "")]
    if not chosen:
        errors.append(required(path, _OWN_PLACE))
    elif len(chosen) > 1:
        errors.append(invalid(path, f"{{{', '.join(chosen)}}}", _OWN_PLACE))
    return errors


def _no_own_place(path: str, device: Document) -> Errors:
    if all(device.get(place) is None for place in _PLACES):
        return []
    return [invalid(path, None, _NO_OWN_PLACE)]


# ---- binding


def validate_binding_conditions(path: str, value: Document) -> Errors:
    """Checks the binding conditions and the failure conditions of a device: both or none."""
    met, failed = "bindingConditions", "bindingFailureConditions"
    if not value.get(met) and not value.get(failed):
        return []
    errors: Errors = []
    for field in (met, failed):
        errors += validate_items(path, value, field, _BINDING_CONDITIONS_MAX, _condition_name)
    conditions: list[str] = value.get(met) or []
    failures: list[str] = value.get(failed) or []
    errors += no_repeated_items(f"{path}.{met}", conditions)
    errors += no_repeated_items(f"{path}.{failed}", failures)
    both = set(conditions)
    errors += [
        invalid(f"{path}.{failed}[{index}]", name, f"{failed} must not overlap with {met}")
        for index, name in enumerate(failures)
        if name in both
    ]
    if failures and not conditions:
        errors.append(invalid(f"{path}.{met}", value.get(met), f"{met} are required to use {failed}"))
    elif conditions and not failures:
        errors.append(invalid(f"{path}.{failed}", value.get(failed), f"{failed} are required to use {met}"))
    return errors


def _condition_name(path: str, name: str) -> Errors:
    return follows(path, name, names.qualified_name)


# ---- resources of nodes


def complete_device(device: Document) -> None:
    """Sets the default multiplier, 1, of node resources that a device provides."""
    for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
        if mapping.get("allocationMultiplier") is None:
            mapping["allocationMultiplier"] = "1"


def _node_resources(path: str, device: Document) -> Errors:
    """Checks the node resources that a device provides, as `cpu`, and their amounts."""
    capacity = device.get("capacity") or {}
    errors: Errors = []
    for name, mapping in (device.get("nodeAllocatableResourceMappings") or {}).items():
        where, key = f"{path}[{name}]", mapping.get("capacityKey")
        multiplier = mapping.get("allocationMultiplier")
        if not is_native_resource(name):
            errors.append(invalid(where, name, "must be a node allocatable resource name"))
        if multiplier is None and key is None:
            text = "at least one of allocationMultiplier or capacityKey must be set"
            errors.append(invalid(where, "", text))
        if multiplier is not None and (quantity := quantity_of(multiplier)).value <= 0:
            errors.append(invalid(f"{where}.allocationMultiplier", str(quantity), "must be positive"))
        if key == "":
            text = "capacityKey must not be an empty string"
            errors.append(invalid(f"{where}.capacityKey", "", text))
        elif key is not None and key not in capacity:
            errors.append(not_found(f"{where}.capacityKey", key))
    return errors
