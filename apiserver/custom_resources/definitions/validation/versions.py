"""Validates the versions of a CustomResourceDefinition: names, storage, deprecation, subresources and
columns.

Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.custom_resources.definitions import versions_of
from apiserver.custom_resources.schemas.schema_paths import InvalidSchemaPath, find_field
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, duplicate, invalid, required, too_many
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at

_DEPRECATION_WARNING_BYTES_MAX: Final = 256
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_SELECTABLE_FIELDS_MAX: Final = 8
_SELECTABLE_TYPES: Final = ("string", "boolean", "integer")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def validate_stored_versions(path: str, document: Document) -> Errors:
    """Checks that versions in which objects may be stored are still in the spec (row S04)."""
    stored = at(document, "status", "storedVersions")
    if not stored:
        return [invalid(path, stored, "must have at least one stored version")]
    errors: Errors = []
    indexes = {name: index for index, name in enumerate(stored)}
    for version in versions_of(document):
        name = version.get("name", "")
        if version.get("storage") and name not in stored:
            errors.append(invalid(path, stored, f"must have the storage version {name}"))
        indexes.pop(name, None)
    return errors + [
        invalid(
            f"{path}[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in "
            f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
            f"removes {name} from status.storedVersions",
        )
        for name, index in indexes.items()
    ]


def validate_version(path: str, version: Document) -> Errors:
    """Checks the parts of a version that depend neither on other versions nor on the schema."""
    return validate_version_name(f"{path}.name", version.get("name", "")) + _deprecation(path, version)


def validate_version_name(path: str, name: str) -> Errors:
    problems = names.dns1035_label(name)
    return [invalid(path, name, ",".join(problems))] if problems else []


def _deprecation(path: str, version: Document) -> Errors:
    warning = version.get("deprecationWarning")
    if warning is None:
        return []
    where = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        return [invalid(where, warning, "can only be set for deprecated versions")]
    errors: Errors = []
    if len(warning.encode()) > _DEPRECATION_WARNING_BYTES_MAX:
        errors.append(invalid(where, warning, "must be <= 256 characters long"))
    if not warning:
        errors.append(invalid(where, warning, "must not be an empty string"))
    stray = next((index for index, character in enumerate(warning) if not character.isprintable()), None)
    if stray is not None:
        text = (
            "must only contain printable UTF-8 characters; "
            f"non-printable character found at index {len(warning[:stray].encode())}"
        )
        errors.append(invalid(where, warning, text))
    return errors


# ---- subresources, printer columns and selectable fields


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
    """Checks a JSONPath."""
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
    # Errors have the name of the field in the first version of this API.
    where = f"{path}.JSONPath"
    if not (found := column.get("jsonPath")):
        return [*errors, required(where)]
    return errors + _json_path(where, found)


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
        if found.schema is None or found.schema.get("type") not in _SELECTABLE_TYPES:
            text = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            errors.append(invalid(where, json_path, text))
        if found.steps in seen:
            errors.append(duplicate(where, json_path))
        seen.add(found.steps)
    if len(seen) > _SELECTABLE_FIELDS_MAX:
        errors.append(too_many(path, len(seen), _SELECTABLE_FIELDS_MAX))
    return errors
