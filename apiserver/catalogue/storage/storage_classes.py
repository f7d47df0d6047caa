"""StorageClasses and VolumeAttributesClasses. Source: pkg/apis/storage/validation, pkg/apis/storage/v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.catalogue.rules.lengths import byte_length
from apiserver.field_errors import duplicate, forbidden, invalid, required, too_long
from apiserver.meta import names
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors, immutable, items, one_of, setting
from apiserver.vocabulary import Document

_POLICIES: Final = ("Delete", "Retain")
_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_PARAMETERS_MAX: Final = 512
_PARAMETERS_BYTES_MAX: Final = 256 * 1024

DEFAULTS: Final[Mapping[str, Default]] = {
    "io.k8s.api.storage.v1.StorageClass": setting(reclaimPolicy="Delete", volumeBindingMode="Immediate")
}


# ---- StorageClass

_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def storage_class_of(claim: Document) -> str | None:
    """The class that a claim asks for; empty for none, None if it does not say."""
    annotations = claim["metadata"].get("annotations") or {}
    named: str | None = annotations.get(_CLASS_ANNOTATION, claim["spec"].get("storageClassName"))
    return named


def validate_storage_class_create(document: Document) -> Errors:
    policy, mode = document.get("reclaimPolicy"), document.get("volumeBindingMode")
    return [
        *validate_provisioner("provisioner", document.get("provisioner", "")),
        *_parameters(document.get("parameters") or {}),
        *(one_of("reclaimPolicy", policy, _POLICIES) if policy else ()),
        *one_of("volumeBindingMode", mode, _MODES),
        *_topologies(document),
    ]


def validate_storage_class_update(new: Document, old: Document) -> Errors:
    errors = [
        *_unchanged(new, old, "parameters"),
        *_unchanged(new, old, "provisioner"),
        *_unchanged(new, old, "reclaimPolicy"),
        *immutable("volumeBindingMode", new.get("volumeBindingMode"), old.get("volumeBindingMode")),
    ]
    if (new.get("allowedTopologies") or []) != (old.get("allowedTopologies") or []):
        errors += _topologies(new)
    return errors


def _topologies(document: Document) -> Errors:
    """Terms that each demand some label's value; no two of them the same."""
    errors: Errors = []
    seen: set[frozenset[tuple[str, frozenset[str]]]] = set()
    for where, term in items(document, "allowedTopologies", ""):
        demands: dict[str, frozenset[str]] = {}
        for path, demand in items(term, "matchLabelExpressions", where):
            key, values = demand.get("key", ""), demand.get("values") or []
            if not values:
                errors.append(required(f"{path}.values"))
            if len(set(values)) < len(values):
                errors += _repeated(f"{path}.values", values)
            if key in demands:
                errors.append(duplicate(f"{path}.key", key))
            demands[key] = frozenset(values)
            errors += [invalid(f"{path}.key", key, problem) for problem in names.qualified_name(key)]
        identity = frozenset(demands.items())
        if identity in seen:
            errors.append(duplicate(f"{where}.matchLabelExpressions", ""))
        seen.add(identity)
    return errors


def _repeated(path: str, values: list[str]) -> Errors:
    seen: set[str] = set()
    errors: Errors = []
    for index, value in enumerate(values):
        if value in seen:
            errors.append(duplicate(f"{path}[{index}]", value))
        seen.add(value)
    return errors


# ---- VolumeAttributesClass


def validate_volume_attributes_class(document: Document) -> Errors:
    parameters = document.get("parameters") or {}
    errors = validate_provisioner("driverName", document.get("driverName", "")) + _parameters(parameters)
    if not parameters:
        errors.append(required("parameters", "must contain at least one key/value pair"))
    return errors


def validate_volume_attributes_class_update(new: Document, old: Document) -> Errors:
    return _unchanged(new, old, "driverName") + _unchanged(new, old, "parameters")


# ---- both


def validate_provisioner(path: str, name: str) -> Errors:
    if not name:
        return [required(path)]
    return [invalid(path, name.lower(), problem) for problem in names.qualified_name(name.lower())]


def _parameters(parameters: Mapping[str, str]) -> Errors:
    if len(parameters) > _PARAMETERS_MAX:
        return [too_long("parameters", _PARAMETERS_MAX)]
    errors: Errors = []
    if "" in parameters:
        errors.append(invalid("parameters", "", "field can not be empty."))
    if (
        sum(byte_length(key) + byte_length(value) for key, value in parameters.items())
        > _PARAMETERS_BYTES_MAX
    ):
        errors.append(too_long("parameters", _PARAMETERS_BYTES_MAX))
    return errors


def _unchanged(new: Document, old: Document, field: str) -> Errors:
    if (new.get(field) or None) == (old.get(field) or None):
        return []
    return [forbidden(field, f"updates to {field} are forbidden.")]
