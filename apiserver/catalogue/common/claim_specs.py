"""Validation of the specs of PersistentVolumeClaims, and of templates for claims.

Source: pkg/apis/core/validation, ValidatePersistentVolumeClaimSpec, and pkg/api/persistentvolumeclaim,
GetWarningsForPersistentVolumeClaimSpec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from apiserver.catalogue.builtin_type import CORE
from apiserver.meta import names, object_meta
from apiserver.meta.field_errors import Errors, forbidden, invalid, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import Default
from apiserver.schema.validation.checks import named, one_of, quantity_of
from apiserver.schema.validation.defaults import rounding, setting
from apiserver.schema.validation.documents import at
from apiserver.schema.validation.label_selectors import label_selector

_ONE_POD: Final = "ReadWriteOncePod"
ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", _ONE_POD)
VOLUME_MODES: Final = ("Block", "Filesystem")

CLAIM_DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {
        f"{CORE}PersistentVolumeClaimSpec": setting(volumeMode="Filesystem"),
        f"{CORE}VolumeResourceRequirements": rounding("limits", "requests"),
    }
)


class ClaimLeniency(NamedTuple):
    """The rules that a claim's spec may break because the stored one does."""

    selector_values: bool = False
    source_groups: bool = False


STRICT: Final = ClaimLeniency()


def leniency_of(old: Document) -> ClaimLeniency:
    """Returns the rules that a new spec may break because the stored one does."""
    sources = (old.get("dataSource") or {}, old.get("dataSourceRef") or {})
    return ClaimLeniency(
        selector_values=bool(label_selector("", old.get("selector"))),
        source_groups=any(source.get("apiGroup") is not None for source in sources),
    )


def validate_claim_spec(path: str, spec: Document, leniency: ClaimLeniency = STRICT) -> Errors:
    modes = spec.get("accessModes") or ()
    errors = [] if modes else [required(f"{path}.accessModes", "at least 1 access mode is required")]
    errors += label_selector(
        f"{path}.selector", spec.get("selector"), allows_invalid_values=leniency.selector_values
    )
    errors += validate_access_modes(f"{path}.accessModes", modes)
    size, where = at(spec, "resources", "requests", "storage"), f"{path}.resources[storage]"
    errors += validate_positive(where, size) if size is not None else [required(where)]
    errors += validate_class_name(f"{path}.storageClassName", spec.get("storageClassName"))
    if (mode := spec.get("volumeMode")) is not None:
        errors += one_of(f"{path}.volumeMode", mode, VOLUME_MODES)
    errors += _data_sources(path, spec, any_group=leniency.source_groups)
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


def _data_sources(path: str, spec: Document, *, any_group: bool) -> Errors:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    errors: Errors = []
    if source is not None:
        errors += _data_source(f"{path}.dataSource", source, any_group=any_group)
    if reference is not None:
        errors += _data_source(f"{path}.dataSourceRef", reference, any_group=any_group)
        namespace = reference.get("namespace")
        errors += named(f"{path}.dataSourceRef.namespace", namespace, names.dns_label, is_required=False)
        if source is not None and namespace:
            text = "may not be specified when dataSourceRef.namespace is specified"
            errors.append(invalid(path, {}, text))
        elif source is not None and _identity(source) != _identity(reference):
            errors.append(invalid(path, {}, "must match dataSourceRef"))
    return errors


def _identity(source: Document) -> tuple[str | None, str, str]:
    return source.get("apiGroup"), source.get("kind", ""), source.get("name", "")


def _data_source(path: str, source: Document, *, any_group: bool) -> Errors:
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    errors = [required(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, kind, text))
    if any_group:
        return errors
    return errors + named(f"{path}.apiGroup", group, names.dns_subdomain, is_required=False)


# ---- templates of claims, also of ResourceClaims

# The other fields, and their values that are none.
_UNSET: Final = {
    **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"), ""),
    "generation": 0,
    **dict.fromkeys(("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"), None),
    **dict.fromkeys(("ownerReferences", "finalizers", "managedFields"), None),
}


def validate_claim_metadata(path: str, meta: Document) -> Errors:
    """Returns the errors in the metadata of a claim template.

    Source: pkg/apis/core/validation, ValidateTemplateObjectMeta.
    """
    errors = object_meta.validate_annotations(meta.get("annotations"), f"{path}.annotations")
    errors += object_meta.validate_labels(meta.get("labels"), f"{path}.labels")
    return errors + [
        forbidden(f"{path}.{'uID' if field == 'uid' else field}", "cannot be set")
        for field, unset in _UNSET.items()
        if meta.get(field) is not None and meta[field] != unset
    ]


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
    """Warns about an amount of bytes that is not whole."""
    if quantity_of(value).is_whole:
        return []
    return [f'{path}: fractional byte value "{value}" is invalid, must be an integer']
