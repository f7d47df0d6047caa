"""What a version of a CustomResourceDefinition points at in its objects: subresources and columns.

Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.field_errors import invalid, required
from apiserver.validation.checks import Errors
from apiserver.vocabulary import Document

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def validate_subresources(path: str, subresources: Document) -> Errors:
    scale = subresources.get("scale")
    if scale is None:
        return []
    errors: Errors = []
    for field, part in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        where, found = f"{path}.scale.{field}", scale.get(field, "")
        if not found:
            errors.append(required(where))
        else:
            errors += _json_path(where, found, (part,), f"should be a json path under {part}")
    if found := scale.get("labelSelectorPath"):
        text = "should be a json path under either .spec or .status"
        errors += _json_path(f"{path}.scale.labelSelectorPath", found, (".spec", ".status"), text)
    return errors


def _json_path(path: str, found: str, parts: Sequence[str] = ("",), text: str = "") -> Errors:
    """parts: under which of these it may lead."""
    if not found.startswith("."):
        return [invalid(path, found, "must be a simple json path starting with .")]
    if not any(found.startswith(f"{part}.") for part in parts):
        return [invalid(path, found, text)]
    return []


def validate_column(path: str, column: Document) -> Errors:
    errors: Errors = [] if column.get("name") else [required(f"{path}.name")]
    for field, known, is_required in (("type", _COLUMN_TYPES, True), ("format", _COLUMN_FORMATS, False)):
        found, text = column.get(field, ""), f"must be one of {','.join(known)}"
        if found and found not in known:
            errors.append(invalid(f"{path}.{field}", found, text))
        elif not found and is_required:
            errors.append(required(f"{path}.{field}", text))
    # The name that the field had in the first version of this API.
    where = f"{path}.JSONPath"
    if not (found := column.get("jsonPath")):
        return [*errors, required(where)]
    return errors + _json_path(where, found)
