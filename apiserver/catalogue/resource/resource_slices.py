"""ResourceSlices: the devices that drivers have. Source: pkg/apis/resource/validation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType, field_texts
from apiserver.catalogue.pod_specs.scheduling import validate_node_selector
from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.catalogue.resource.device_requests import (
    validate_attribute_name,
    validate_label,
    validate_pool_name,
)
from apiserver.field_errors import Errors, duplicate, invalid, required, too_long, too_many
from apiserver.meta import names
from apiserver.meta.names import byte_length
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.validation.checks import immutable
from apiserver.validation.documents import at, items
from apiserver.vocabulary import Document


def builtin_type() -> BuiltinType:
    return BuiltinType(
        "resource.",
        "v1",
        "resourceslices",
        "ResourceSlice",
        "io.k8s.api.resource.v1.ResourceSlice",
        is_namespaced=False,
        strategy=Strategy(
            validate=validate_slice,
            update=UpdateStrategy(validate=validate_slice_update),
            has_generation=True,
        ),
        columns=columns(
            Column("Node", field_cell("spec", "nodeName", default="<unset>"), description="Whose devices."),
            Column("Driver", field_cell("spec", "driver"), description="The driver that has them."),
            Column("Pool", field_cell("spec", "pool", "name"), description="The pool that they belong to."),
            AGE,
        ),
        selectable_fields=field_texts("spec.nodeName", "spec.driver"),
    )


_DEVICES_MAX: Final = 128
_ATTRIBUTES_MAX: Final = 32
_VALUE_BYTES_MAX: Final = 64


def validate_slice(document: Document) -> Errors:
    spec = document.get("spec", {})
    pool = spec.get("pool", {})
    errors = validate_csi_driver_name("spec.driver", spec.get("driver", ""))
    errors += validate_pool_name("spec.pool.name", pool.get("name", ""))
    if (count := pool.get("resourceSliceCount", 0)) <= 0:
        errors.append(invalid("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    if (generation := pool.get("generation", 0)) < 0:
        text = "must be greater than or equal to zero"
        errors.append(invalid("spec.pool.generation", generation, text))
    return errors + _nodes(spec) + _devices(spec)


def validate_slice_update(new: Document, old: Document) -> Errors:
    return [
        error
        for path in (("pool", "name"), ("driver",), ("nodeName",))
        for error in immutable(f"spec.{'.'.join(path)}", at(new, "spec", *path), at(old, "spec", *path))
    ]


_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)


def _nodes(spec: Document) -> Errors:
    errors: Errors = []
    if (name := spec.get("nodeName")) == "":
        text = "must be either unset or set to a non-empty string"
        errors.append(invalid("spec.nodeName", name, text))
    elif name is not None:
        errors += [invalid("spec.nodeName", name, problem) for problem in names.dns_subdomain(name)]
    if (selector := spec.get("nodeSelector")) is not None:
        errors += validate_node_selector("spec.nodeSelector", selector)
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            path = "spec.nodeSelector.nodeSelectorTerms"
            errors.append(invalid(path, terms, "must have exactly one node selector term"))
    errors += [
        invalid(f"spec.{field}", False, "must be either unset or set to true")
        for field in ("allNodes", "perDeviceNodeSelection")
        if spec.get(field) is False
    ]
    chosen = [f"`{place}`" for place in _PLACES if spec.get(place) not in (None, False, "")]
    if not chosen:
        errors.append(required("spec", _ONE_PLACE))
    elif len(chosen) > 1:
        text = f"{_ONE_PLACE}, but multiple fields are set"
        errors.append(invalid("spec", f"{{{', '.join(chosen)}}}", text))
    return errors


def _devices(spec: Document) -> Errors:
    count = len(spec.get("devices") or ())
    if count > _DEVICES_MAX:
        return [too_many("spec.devices", count, _DEVICES_MAX)]
    errors: Errors = []
    seen: set[str] = set()
    for where, device in items(spec, "devices", "spec"):
        name = device.get("name", "")
        errors += validate_label(f"{where}.name", name) + _features(where, device)
        if name in seen:
            errors.append(duplicate(where, name))
        seen.add(name)
    return errors


def _features(path: str, device: Document) -> Errors:
    attributes: Mapping[str, Any] = device.get("attributes") or {}
    capacity: Mapping[str, Any] = device.get("capacity") or {}
    total = len(attributes) + len(capacity)
    if total > _ATTRIBUTES_MAX:
        text = f"the total number of attributes and capacities must not exceed {_ATTRIBUTES_MAX}"
        return [invalid(path, total, text)]
    errors: Errors = []
    for key, value in attributes.items():
        where = f"{path}.attributes[{key}]"
        errors += validate_attribute_name(where, key) + _attribute(where, value)
    for key in capacity:
        errors += validate_attribute_name(f"{path}.capacity[{key}]", key)
    return errors


_KINDS: Final = ("bool", "int", "string", "version")
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_PRERELEASE: Final = r"(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
is_semver = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
).fullmatch


def _attribute(path: str, value: Document) -> Errors:
    errors: Errors = []
    for field in ("string", "version"):
        if byte_length(value.get(field) or "") > _VALUE_BYTES_MAX:
            errors.append(too_long(f"{path}.{field}", _VALUE_BYTES_MAX))
    version = (value.get("version") or "")[: _VALUE_BYTES_MAX + 1]
    if "version" in value and not is_semver(version):
        text = "must be a string compatible with semver.org spec 2.0.0"
        errors.append(invalid(f"{path}.version", version, text))
    if sum(value.get(kind) is not None for kind in _KINDS) != 1:
        errors.append(invalid(path, value or "", "exactly one value must be specified"))
    return errors
