"""The specs of claims to volumes: of PersistentVolumeClaims, and of the templates from which claims are made.

Source: pkg/apis/core/validation, ValidatePersistentVolumeClaimSpec, and pkg/api/persistentvolumeclaim,
GetWarningsForPersistentVolumeClaimSpec.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from apiserver.field_errors import Errors, forbidden, invalid, required
from apiserver.meta import names
from apiserver.validation.checks import named, one_of, quantity_of
from apiserver.validation.documents import at
from apiserver.validation.label_selectors import label_selector
from apiserver.vocabulary import Document

_ONE_POD: Final = "ReadWriteOncePod"
ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", _ONE_POD)
VOLUME_MODES: Final = ("Block", "Filesystem")


def validate_claim_spec(path: str, spec: Document) -> Errors:
    modes = spec.get("accessModes") or ()
    errors = [] if modes else [required(f"{path}.accessModes", "at least 1 access mode is required")]
    errors += label_selector(f"{path}.selector", spec.get("selector"))
    errors += validate_access_modes(f"{path}.accessModes", modes)
    size, where = at(spec, "resources", "requests", "storage"), f"{path}.resources[storage]"
    errors += validate_positive(where, size) if size is not None else [required(where)]
    errors += validate_class_name(f"{path}.storageClassName", spec.get("storageClassName"))
    if (mode := spec.get("volumeMode")) is not None:
        errors += one_of(f"{path}.volumeMode", mode, VOLUME_MODES)
    errors += _data_sources(path, spec)
    attributes_class = spec.get("volumeAttributesClassName")
    return errors + validate_class_name(f"{path}.volumeAttributesClassName", attributes_class)


def validate_access_modes(path: str, modes: Sequence[str]) -> Errors:
    errors = [error for mode in modes for error in one_of(path, mode, ACCESS_MODES)]
    if _ONE_POD in modes and set(modes) & {*ACCESS_MODES} - {_ONE_POD}:
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def validate_positive(path: str, value: Any) -> Errors:
    return [] if quantity_of(value).value > 0 else [invalid(path, value, "must be greater than zero")]


def validate_class_name(path: str, name: str | None) -> Errors:
    return named(path, name, names.dns_subdomain, is_required=False)


def _data_sources(path: str, spec: Document) -> Errors:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    errors: Errors = []
    if source is not None:
        errors += _data_source(f"{path}.dataSource", source)
    if reference is not None:
        errors += _data_source(f"{path}.dataSourceRef", reference)
        namespace = reference.get("namespace")
        errors += named(f"{path}.dataSourceRef.namespace", namespace, names.dns_label, is_required=False)
        if source is not None and namespace:
            text = "may not be specified when dataSourceRef.namespace is specified"
            errors.append(invalid(path, f"{path}.dataSource", text))
        elif source is not None and source != {k: v for k, v in reference.items() if k != "namespace"}:
            errors.append(invalid(path, f"{path}.dataSource", "must match dataSourceRef"))
    return errors


def _data_source(path: str, source: Document) -> Errors:
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    errors = [required(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, kind, text))
    return errors + named(f"{path}.apiGroup", group, names.dns_subdomain, is_required=False)


# ---- warnings


def warn_claim_spec(path: str, spec: Document) -> list[str]:
    return [
        warning
        for field in ("requests", "limits")
        for warning in warn_fraction(
            f"{path}.resources.{field}[storage]", at(spec, "resources", field, "storage")
        )
    ]


def warn_fraction(path: str, value: Any) -> list[str]:
    """Warns of an amount that is counted in bytes and is not whole."""
    if quantity_of(value).is_whole:
        return []
    return [f'{path}: fractional byte value "{value}" is invalid, must be an integer']
