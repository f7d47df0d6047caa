"""PersistentVolumeClaims.

Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation, ValidatePersistentVolumeClaim;
pkg/registry/core/persistentvolumeclaim. Kubernetes adds a list of the differences to its errors about
changes; here they end with the sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from apiserver.catalogue.builtin_type import CORE, DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.common.claim_specs import (
    CLAIM_DEFAULTS,
    leniency_of,
    validate_claim_spec,
    warn_claim_spec,
)
from apiserver.catalogue.core.persistent_volumes import (
    ATTRIBUTES_CLASS_COLUMN,
    PHASE_COLUMN,
    STORAGE_CLASS_ANNOTATION,
    STORAGE_CLASS_COLUMN,
    VOLUME_MODE_COLUMN,
    access_modes_text,
    storage_class_warnings,
    validate_quantity,
)
from apiserver.catalogue.pod_specs.resource_requirements import is_native_resource
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, forbidden, invalid, not_supported, required
from apiserver.meta.quantity import Quantity
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.checks import IMMUTABLE, immutable, non_negative_quantity, quantity_of
from apiserver.schema.validation.defaults import rounding, setting
from apiserver.schema.validation.documents import at


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = ClaimRules(gates.is_on("RecoverVolumeExpansionFailure"), gates.is_on("VolumeAttributesClass"))
    return BuiltinType(
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        short_names=("pvc",),
        subresources=(status_subresource(validate_claim_status),),
        defaults={
            f"{CORE}PersistentVolumeClaim": _default_claim,
            f"{CORE}PersistentVolumeClaimStatus": rounding("capacity", "allocatedResources"),
            **CLAIM_DEFAULTS,
        },
        strategy=Strategy(
            prepare_create=prepare_claim_create,
            validate_ratcheting=partial(validate_claim, rules=rules),
            warn=warn_claim,
            update=UpdateStrategy(prepare_claim_update),
            returns_deleted=True,
        ),
        columns=columns(
            PHASE_COLUMN,
            Column("Volume", field_cell("spec", "volumeName"), "The volume that is bound to the claim."),
            Column(
                "Capacity",
                _if_bound(lambda document: at(document, "status", "capacity", "storage") or "0"),
                "The capacity of the claim's volume.",
            ),
            Column(
                "Access Modes",
                _if_bound(lambda document: access_modes_text(at(document, "status", "accessModes"))),
                "The access modes of the claim's volume.",
            ),
            STORAGE_CLASS_COLUMN,
            ATTRIBUTES_CLASS_COLUMN,
            AGE,
            VOLUME_MODE_COLUMN,
        ),
    )


def _default_claim(claim: Document) -> None:
    setting(phase="Pending")(claim["status"])


def prepare_claim_create(document: Document) -> None:
    document["status"] = {"phase": "Pending"}
    _prepare_data_sources(document, {})


def prepare_claim_update(new: Document, old: Document) -> None:
    keep_status(new, old)
    _prepare_data_sources(new, old)


def _prepare_data_sources(new: Document, old: Document) -> None:
    spec = new.get("spec") or {}
    _drop_data_sources(spec, old.get("spec") or {})
    _complete_data_sources(spec)


def _complete_data_sources(spec: Document) -> None:
    """Copies a data source to the other of its two fields, too."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {k: v for k, v in reference.items() if k != "namespace"}


def _drop_data_sources(spec: Document, old: Document) -> None:
    """Silently drops data sources that claims may not have, as Kubernetes does."""
    if old.get("dataSource") is not None or old.get("dataSourceRef") is not None:
        return
    source = spec.get("dataSource") or {}
    known = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
    if spec.get("dataSourceRef") is None and (source.get("apiGroup") or "", source.get("kind")) not in known:
        spec.pop("dataSource", None)


class ClaimRules(NamedTuple):
    """The rules for updates of claims that depend on feature gates.

    may_shrink: whether a request that could not be met may be reduced.
    has_attributes_classes: whether the VolumeAttributesClass may change.
    """

    may_shrink: bool
    has_attributes_classes: bool


def validate_claim(document: Document, old: Document | None, *, rules: ClaimRules) -> Errors:
    spec = document.get("spec") or {}
    if old is None:
        return validate_claim_spec("spec", spec)
    leniency = leniency_of(old.get("spec") or {})
    return validate_claim_spec("spec", spec, leniency) + _validate_change(document, old, rules)


def _validate_change(new: Document, old: Document, rules: ClaimRules) -> Errors:
    """Checks that a bound claim only grows, and that no other field changes."""
    spec, old_spec = new.get("spec") or {}, dict(old.get("spec") or {})
    _complete_data_sources(old_spec)
    annotations, old_annotations = (each["metadata"].get("annotations") or {} for each in (new, old))
    before, now = old_annotations.get(STORAGE_CLASS_ANNOTATION), annotations.get(STORAGE_CLASS_ANNOTATION)
    name, old_name = spec.get("storageClassName"), old_spec.get("storageClassName")
    # The class may come, or move here from the annotation that was its place once.
    moves = before is not None and old_name is None and name == before and now in (None, before)
    errors: Errors = []
    if not moves and (now or "") != (before or ""):
        where = f"metadata.annotations.{STORAGE_CLASS_ANNOTATION}"
        errors.append(invalid(where, now or "", IMMUTABLE))
    comes = old_name is None and name is not None and before in (None, name)
    if _unchangeable(spec, new, old_spec, any_class=moves or comes) != _unchangeable(
        old_spec, new, old_spec, any_class=moves or comes
    ):
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
            "bound claims"
        )
        errors.append(forbidden("spec", text))
    size, old_size = (quantity_of(at(each, "resources", "requests", "storage")) for each in (spec, old_spec))
    if size < old_size:
        errors += _shrunk(size, old, rules)
    errors += immutable("volumeMode", spec.get("volumeMode"), old_spec.get("volumeMode"))
    return errors + _attributes_class(spec, old, rules)


def _shrunk(size: Quantity, old: Document, rules: ClaimRules) -> Errors:
    status, path = old.get("status") or {}, "spec.resources.requests.storage"
    may_shrink = rules.may_shrink or "allocatedResources" in status or "allocatedResourceStatuses" in status
    if not may_shrink:
        return [forbidden(path, "field can not be less than previous value")]
    # But not to what the volume already has.
    if size <= quantity_of(at(status, "capacity", "storage")):
        return [forbidden(path, "field can not be less than status.capacity")]
    return []


def _attributes_class(spec: Document, old: Document, rules: ClaimRules) -> Errors:
    path, name = "spec.volumeAttributesClassName", spec.get("volumeAttributesClassName")
    before = at(old, "spec", "volumeAttributesClassName")
    if name == before:
        return []
    errors: Errors = []
    if not rules.has_attributes_classes:
        text = "update is forbidden when the VolumeAttributesClass feature gate is disabled"
        errors.append(forbidden(path, text))
        if before is None:
            return errors
    if at(old, "status", "currentVolumeAttributesClassName") is not None and not name:
        value = "nil" if name is None else "empty string"
        text = f"update to {value} is forbidden when status.currentVolumeAttributesClassName is not nil"
        errors.append(forbidden(path, text))
    return errors


def _unchangeable(spec: Document, new: Document, old_spec: Document, *, any_class: bool) -> Document:
    """Returns the part of a spec that may not change."""
    kept = dict(spec)
    if not old_spec.get("volumeName"):
        kept.pop("volumeName", None)
    if any_class:
        kept.pop("storageClassName", None)
    if at(new, "status", "phase") == "Bound":
        kept.pop("volumeAttributesClassName", None)
        if (requests := at(spec, "resources", "requests")) is not None:
            others = {k: v for k, v in requests.items() if k != "storage"}
            kept["resources"] = {**spec["resources"], "requests": others}
    return kept


_RESIZE_STATUSES: Final = (
    *("ControllerResizeInProgress", "ControllerResizeInfeasible"),
    *("NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"),
)


def validate_claim_status(new: Document, old: Document) -> Errors:
    status = new.get("status") or {}
    errors: Errors = [] if at(new, "spec", "accessModes") else [required("Spec.accessModes")]
    for name, value in (status.get("capacity") or {}).items():
        errors += validate_quantity(f"status.capacity[{name}]", value)
    path = "status.allocatedResourceStatuses"
    for name, value in (status.get("allocatedResourceStatuses") or {}).items():
        errors += _claim_resource(path, name)
        if value not in _RESIZE_STATUSES:
            errors.append(not_supported(path, name, sorted(_RESIZE_STATUSES)))
    path = "status.allocatedResources"
    for name, value in (status.get("allocatedResources") or {}).items():
        where = f"{path}[{name}]"
        errors += (
            _claim_resource(path, name)
            or validate_quantity(where, value)
            or non_negative_quantity(where, value)
        )
    return errors


def _claim_resource(path: str, name: str) -> Errors:
    errors = [invalid(path, name, problem) for problem in names.qualified_name(name)]
    if not errors and is_native_resource(name) and name != "storage":
        errors.append(not_supported(path, name, ["storage"]))
    return errors


def warn_claim(new: Document, old: Document | None) -> list[str]:
    return storage_class_warnings(new) + warn_claim_spec("spec", new.get("spec") or {})


def storage_class_of(claim: Document) -> str | None:
    """Returns the storage class of a PersistentVolumeClaim: empty for none, None if it is not set."""
    annotations = claim["metadata"].get("annotations") or {}
    named: str | None = annotations.get(STORAGE_CLASS_ANNOTATION, claim["spec"].get("storageClassName"))
    return named


# ---- columns


def _if_bound(get: Callable[[Document], str]) -> Callable[[Document, float], str]:
    """Returns a cell that is empty for a claim without a volume."""
    return lambda document, now: get(document) if at(document, "spec", "volumeName") else ""
