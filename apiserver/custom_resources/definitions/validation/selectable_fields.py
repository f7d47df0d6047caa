"""Validates the fields by which custom resources can be selected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.custom_resources.schemas.schema_paths import InvalidSchemaPath, find_field
from apiserver.field_errors import Errors, duplicate, invalid, required, too_many
from apiserver.vocabulary import Document

_FIELDS_MAX: Final = 8
_TYPES: Final = ("string", "boolean", "integer")


def validate_selectable_fields(path: str, fields: Sequence[Document], schema: Document) -> Errors:
    """Returns the errors in the selectable fields of a version.

    Source: pkg/apis/apiextensions/validation, ValidateCustomResourceSelectableFields.
    """
    errors: Errors = []
    seen: set[tuple[str, ...]] = set()
    for index, field in enumerate(fields):
        where, json_path = f"{path}[{index}].jsonPath", field.get("jsonPath", "")
        if not json_path:
            errors.append(required(where))
            continue
        try:
            found = find_field(json_path, schema, allows_brackets=False)
        except InvalidSchemaPath as error:
            errors.append(invalid(where, json_path, f"is an invalid path: {error}"))
            continue
        if found.steps[0] == "metadata":
            errors.append(invalid(where, json_path, "must not point to fields in metadata"))
        if found.schema is None or found.schema.get("type") not in _TYPES:
            text = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            errors.append(invalid(where, json_path, text))
        if found.steps in seen:
            errors.append(duplicate(where, json_path))
        seen.add(found.steps)
    if len(seen) > _FIELDS_MAX:
        errors.append(too_many(path, len(seen), _FIELDS_MAX))
    return errors
