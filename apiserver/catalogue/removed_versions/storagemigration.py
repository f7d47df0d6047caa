"""StorageVersionMigrations of storagemigration/v1alpha1 in releases 1.30 to 1.34.

They also have a version, and a continue token; both stay in the stored object. Their conditions have another
time. Source: pkg/apis/storagemigration/validation (release 1.34).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import CurrentTypes, hub_of, other_version
from apiserver.catalogue.storagemigration.storage_version_migrations import (
    GROUP,
    RESOURCE,
    validate_migration_update,
)
from apiserver.meta.field_errors import Errors, required
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import UpdateStrategy, keep_status
from apiserver.schema.validation.documents import at

_TO_HUB: Final = {"lastUpdateTime": "lastTransitionTime"}
_FROM_HUB: Final = {new: old for old, new in _TO_HUB.items()}
_IMMUTABLE: Final = ("group", "version", "resource")


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    later = current[f"{GROUP}.", RESOURCE]
    strategy = later.strategy._replace(
        validate=_validate, update=UpdateStrategy(keep_status, _validate_update)
    )
    return (other_version(later, "v1alpha1", strategy=strategy, hub=hub_of(later, to_hub, from_hub)),)


def to_hub(document: Document) -> None:
    _rename(document, _TO_HUB)


def from_hub(document: Document) -> None:
    _rename(document, _FROM_HUB)


def _rename(document: Document, fields: Mapping[str, str]) -> None:
    status = document.get("status") or {}
    if conditions := status.get("conditions"):
        status["conditions"] = [
            {fields.get(name, name): value for name, value in each.items()} for each in conditions
        ]


def _validate(document: Document) -> Errors:
    return [
        required(f"spec.resource.{field}", f"{field} is required")
        for field in ("resource", "version")
        if not at(document, "spec", "resource", field)
    ]


def _validate_update(new: Document, old: Document) -> Errors:
    return validate_migration_update(new, old, _IMMUTABLE)
