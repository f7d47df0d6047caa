"""DeviceTaintRules: taints of devices that administrators set, in addition to those of drivers.

Source: pkg/apis/resource/validation, ValidateDeviceTaintRule; pkg/registry/resource/devicetaintrule; KEP-5055
(release 1.36).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, clear_status, status_subresource
from apiserver.catalogue.common.other_versions import other_version
from apiserver.catalogue.pod_specs.volumes import validate_csi_driver_name
from apiserver.catalogue.resource.device_requests import validate_label, validate_pool_name
from apiserver.catalogue.resource.device_taints import validate_taint
from apiserver.meta.field_errors import Errors
from apiserver.meta.table import AGE, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import (
    Strategy,
    UpdateStrategy,
    WriteContext,
    keep_status,
    only_status_without_metadata,
)
from apiserver.schema.validation.checks import max_items
from apiserver.schema.validation.conditions import validate_conditions
from apiserver.schema.validation.documents import at

# Rules had a gate together with all else about taints until 1.34.
GATES: Final = ("DRADeviceTaints", "DRADeviceTaintRules")
_CONDITIONS_MAX: Final = 8


def date_new_taint(stamp: WriteContext, document: Document) -> None:
    taint = _taint(document)
    taint["timeAdded"] = taint.get("timeAdded") or stamp.now


def date_taint(stamp: WriteContext, new: Document, old: Document) -> None:
    """Sets the time of a taint without one, or with a changed effect."""
    taint, before = _taint(new), _taint(old)
    is_other = taint.get("effect", "") != before.get("effect", "")
    if not taint.get("timeAdded") or (is_other and taint["timeAdded"] == before.get("timeAdded")):
        taint["timeAdded"] = stamp.now


def _taint(document: Document) -> Document:
    taint: Document = document.setdefault("spec", {}).setdefault("taint", {})
    return taint


def validate_new_rule(document: Document) -> Errors:
    return _rule(document, None)


def validate_rule_update(new: Document, old: Document) -> Errors:
    """Checks an update. An unchanged effect may be one of a later release."""
    return _rule(new, at(old, "spec", "taint", "effect") or "")


def _rule(document: Document, old_effect: str | None) -> Errors:
    spec = document.get("spec", {})
    errors = _selector("spec.deviceSelector", spec.get("deviceSelector") or {})
    return errors + validate_taint("spec.taint", spec.get("taint") or {}, old_effect)


def _selector(path: str, selector: Document) -> Errors:
    errors: Errors = []
    for field, check in (
        ("driver", validate_csi_driver_name),
        ("pool", validate_pool_name),
        ("device", validate_label),
    ):
        if (name := selector.get(field)) is not None:
            errors += check(f"{path}.{field}", name)
    return errors


def validate_status(new: Document, old: Document) -> Errors:
    status = new.get("status") or {}
    excess = max_items("status.conditions", status.get("conditions"), _CONDITIONS_MAX)
    return validate_conditions(status, "status") + excess


BUILTIN_TYPE: Final = BuiltinType(
    "resource.",
    "v1beta2",
    "devicetaintrules",
    "DeviceTaintRule",
    is_namespaced=False,
    subresources=(
        status_subresource(
            validate_status, prepare=only_status_without_metadata, resets=("metadata", "spec")
        ),
    ),
    strategy=Strategy(
        returns_deleted=True,
        prepare_create=clear_status,
        stamp_create=date_new_taint,
        validate_create=validate_new_rule,
        update=UpdateStrategy(keep_status, validate_rule_update, stamp=date_taint),
        has_generation=True,
    ),
    columns=columns(AGE),
    feature_gates=GATES,
)
_STRICT: Final = BUILTIN_TYPE.strategy._replace(allows_unconditional_update=False)
# All versions, which differ in their names only. The first is one that 1.36 has, too.
TYPES: Final = (
    BUILTIN_TYPE,
    other_version(BUILTIN_TYPE, "v1", strategy=_STRICT),
    other_version(BUILTIN_TYPE, "v1alpha3"),
)
