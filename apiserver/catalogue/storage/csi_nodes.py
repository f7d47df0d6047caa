"""CSINodes: the CSI drivers of a node, and since 1.37 the problems of their storage.

Source: pkg/apis/storage/validation, ValidateCSINode; pkg/registry/storage/csinode (release 1.37); for the
status k8s.io/api/storage/v1 and KEP-1432.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, clear_status, status_without_metadata
from apiserver.catalogue.common.claim_specs import ACCESS_MODES, VOLUME_MODES
from apiserver.catalogue.common.columns import list_length
from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.names import byte_length
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, keep_status, only_status_without_metadata
from apiserver.schema.validation.checks import (
    follows,
    immutable,
    max_bytes,
    max_items,
    non_negative,
    one_of,
    one_of_if_set,
    uniqueness,
)
from apiserver.schema.validation.documents import at, items

GATE: Final = "CSIVolumeHealth"
_STATUS_SINCE: Final = 37


def builtin_type(
    release: EmulatedRelease, gates: FeatureGates | None, states: FeatureGates = DEFAULT_GATES
) -> BuiltinType:
    """Returns the type. gates: those of fields, None if all are on. states: those of rules."""
    counts_change = states.is_on("MutableCSINodeAllocatableCount")
    former = _without_status(partial(validate_csi_node, counts_change=counts_change))
    return _with_status(former, gates) if release.minor >= _STATUS_SINCE else former


def _with_status(former: BuiltinType, gates: FeatureGates | None) -> BuiltinType:
    has_health = gates is None or gates.is_on(GATE)
    status = status_without_metadata(validate_status, partial(_only_status, has_health))
    strategy = former.strategy._replace(
        prepare_create=clear_status, update=former.strategy.update._replace(prepare=keep_status)
    )
    return replace(former, subresources=(status,), strategy=strategy)


def _without_status(validate: Callable[[Document, Document | None], Errors]) -> BuiltinType:
    return BuiltinType(
        "storage.",
        "v1",
        "csinodes",
        "CSINode",
        is_namespaced=False,
        strategy=Strategy(
            returns_deleted=True, allows_unconditional_update=False, validate_ratcheting=validate
        ),
        columns=columns(
            Column(
                "Drivers",
                list_length("spec", "drivers"),
                "The number of drivers on the node.",
                type="integer",
            ),
            AGE,
        ),
    )


_NODE_ID_BYTES_MAX: Final = 256


def validate_csi_node(document: Document, old: Document | None, *, counts_change: bool) -> Errors:
    """Returns the errors in a CSINode. counts_change: whether the volume limits of a driver may change."""
    errors: Errors = []
    unique = uniqueness()
    for where, driver in items(document.get("spec", {}), "drivers", "spec"):
        name, node_id = driver.get("name", ""), driver.get("nodeID", "")
        errors += validate_csi_driver_name(f"{where}.name", name)
        if not node_id:
            errors.append(required(f"{where}.nodeID"))
        if byte_length(node_id) > _NODE_ID_BYTES_MAX:
            text = f"must be {_NODE_ID_BYTES_MAX} characters or less"
            errors.append(invalid(f"{where}.nodeID", node_id, text))
        errors += non_negative(f"{where}.allocatable.count", at(driver, "allocatable", "count"))
        errors += unique(f"{where}.name", name)
        errors += _topology_keys(where, driver.get("topologyKeys") or ())
    return errors if old is None else errors + _changes(document, old, counts_change=counts_change)


def _topology_keys(path: str, keys: Any) -> Errors:
    errors: Errors = []
    unique = uniqueness()
    for key in keys:
        if not key:
            errors.append(required(path))
        errors += unique(path, key)
        errors += follows(path, key, names.qualified_name)
    return errors


def _changes(new: Document, old: Document, *, counts_change: bool) -> Errors:
    """Checks that existing drivers do not change. Drivers may be added and removed."""
    ignored = ("allocatable",) if counts_change else ()
    after: dict[str, list[Document]] = {}
    for driver in at(new, "spec", "drivers") or ():
        after.setdefault(driver.get("name", ""), []).append(_without(driver, ignored))
    return [
        error
        for before in at(old, "spec", "drivers") or ()
        for driver in after.get(before.get("name", ""), ())
        for error in immutable("spec.drivers", driver, _without(before, ignored))
    ]


def _without(driver: Document, fields: Sequence[str]) -> Document:
    return {name: value for name, value in driver.items() if name not in fields}


# ---- the status


_CONDITIONS_MAX: Final = 16
_REASON_BYTES_MAX: Final = 256
_MESSAGE_BYTES_MAX: Final = 1024
_STATUSES: Final = ("StorageDegraded", "StorageUnreachable")


def _only_status(has_health: bool, new: Document, old: Document) -> None:
    """Copies everything but the status. While the feature is off, only existing health fields may change."""
    only_status_without_metadata(new, old)
    if not has_health and not at(old, "status", "storageHealth") and new.get("status"):
        new["status"].pop("storageHealth", None)


def validate_status(new: Document, old: Document) -> Errors:
    errors: Errors = []
    unique = uniqueness()
    for where, driver in items(new.get("status") or {}, "storageHealth", "status"):
        name = driver.get("name")
        errors += unique(f"{where}.name", name) if name else [required(f"{where}.name")]
        conditions = driver.get("healthConditions")
        errors += max_items(f"{where}.healthConditions", conditions, _CONDITIONS_MAX) or [
            error
            for path, condition in items(driver, "healthConditions", where)
            for error in _health_condition(path, condition)
        ]
    return errors


def _health_condition(path: str, condition: Document) -> Errors:
    errors = one_of(f"{path}.status", condition.get("status"), _STATUSES, required_text="")
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    if not reason:
        errors.append(required(f"{path}.reason"))
    errors += max_bytes(f"{path}.reason", reason, _REASON_BYTES_MAX)
    errors += max_bytes(f"{path}.message", message, _MESSAGE_BYTES_MAX)
    for field, modes in (("accessMode", ACCESS_MODES), ("volumeMode", VOLUME_MODES)):
        errors += one_of_if_set(f"{path}.{field}", condition.get(field), modes)
    return errors
