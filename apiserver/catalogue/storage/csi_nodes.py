"""CSINodes: the CSI drivers that a node has. Source: pkg/apis/storage/validation, ValidateCSINode."""

from __future__ import annotations

from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.columns import list_length
from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.field_errors import Errors, duplicate, invalid, required
from apiserver.meta import names
from apiserver.meta.names import byte_length
from apiserver.meta.table import AGE, Column, columns
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.validation.checks import immutable, non_negative
from apiserver.validation.documents import at, items
from apiserver.vocabulary import Document


def builtin_type() -> BuiltinType:
    return BuiltinType(
        "storage.",
        "v1",
        "csinodes",
        "CSINode",
        "io.k8s.api.storage.v1.CSINode",
        is_namespaced=False,
        strategy=Strategy(
            validate=validate_csi_node, update=UpdateStrategy(validate=validate_csi_node_update)
        ),
        columns=columns(
            Column(
                "Drivers",
                list_length("spec", "drivers"),
                type="integer",
                description="How many drivers the node has.",
            ),
            AGE,
        ),
    )


_NODE_ID_BYTES_MAX: Final = 256


def validate_csi_node(document: Document) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for where, driver in items(document.get("spec", {}), "drivers", "spec"):
        name, node_id = driver.get("name", ""), driver.get("nodeID", "")
        errors += validate_csi_driver_name(f"{where}.name", name)
        if not node_id:
            errors.append(required(f"{where}.nodeID"))
        elif byte_length(node_id) > _NODE_ID_BYTES_MAX:
            text = f"must be {_NODE_ID_BYTES_MAX} characters or less"
            errors.append(invalid(f"{where}.nodeID", node_id, text))
        errors += non_negative(f"{where}.allocatable.count", at(driver, "allocatable", "count"))
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        errors += _topology_keys(where, driver.get("topologyKeys") or ())
    return errors


def _topology_keys(path: str, keys: Any) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for key in keys:
        if not key:
            errors.append(required(path))
        if key in seen:
            errors.append(duplicate(path, key))
        seen.add(key)
        errors += [invalid(path, key, problem) for problem in names.qualified_name(key)]
    return errors


def validate_csi_node_update(new: Document, old: Document) -> Errors:
    """Checks that a driver that stays does not change. Drivers may be added and removed."""
    before = {driver.get("name"): driver for driver in at(old, "spec", "drivers") or ()}
    return [
        error
        for driver in at(new, "spec", "drivers") or ()
        if driver.get("name") in before
        for error in immutable("spec.drivers", driver, before[driver.get("name")])
    ]
