"""VolumeAttributesClasses. Source: pkg/apis/storage/validation, ValidateVolumeAttributesClass."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.storage.storage_classes import validate_parameters, validate_provisioner
from apiserver.meta.field_errors import Errors, forbidden, required
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy


def _builtin_type(version: str) -> BuiltinType:
    return BuiltinType(
        "storage.",
        version,
        "volumeattributesclasses",
        "VolumeAttributesClass",
        is_namespaced=False,
        short_names=("vac",),
        strategy=Strategy(
            returns_deleted=True,
            validate=validate_volume_attributes_class,
            update=UpdateStrategy(validate=validate_volume_attributes_class_update),
        ),
        columns=columns(Column("DriverName", field_cell("driverName"), "The driver of the class."), AGE),
    )


def validate_volume_attributes_class(document: Document) -> Errors:
    parameters = document.get("parameters") or {}
    errors = validate_provisioner("driverName", document.get("driverName", "")) + validate_parameters(
        parameters
    )
    if not parameters:
        errors.append(required("parameters", "must contain at least one key/value pair"))
    return errors


def validate_volume_attributes_class_update(new: Document, old: Document) -> Errors:
    return [
        forbidden(field, f"updates to {field} are forbidden.")
        for field in ("driverName", "parameters")
        if (new.get(field) or None) != (old.get(field) or None)
    ]


# All versions, which differ in their names only.
TYPES: Final = (_builtin_type("v1"), _builtin_type("v1beta1"))
