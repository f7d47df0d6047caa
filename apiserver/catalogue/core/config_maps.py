"""ConfigMaps, and rules that Secrets share with them. Source: pkg/apis/core/validation, ValidateConfigMap."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta import names, table
from apiserver.meta.field_errors import NO_FIELD, Errors, forbidden, invalid, too_long
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy

# The size of all values together, in bytes; the same holds for Secrets.
SIZE_MAX: Final = 1024 * 1024


def decoded_size(text: str) -> int:
    """Returns the number of bytes that a valid base64 text encodes."""
    return len(text) // 4 * 3 - text[-2:].count("=")


def validate_config_map(document: Document) -> Errors:
    data, binary = document.get("data") or {}, document.get("binaryData") or {}
    errors = validate_keys("data", data, binary)
    if binary:
        errors += validate_keys("binaryData", binary)
    return errors + validate_size(document)


def validate_keys(field: str, keys: Iterable[str], binary_keys: Collection[str] = ()) -> Errors:
    """Checks the keys of values. binary_keys: those of binaryData, none of which may be among them."""
    errors: Errors = []
    for key in keys:
        if problems := names.config_map_key(key):
            errors += [invalid(f"{field}[{key}]", key, problem) for problem in problems]
        if key in binary_keys:
            errors.append(invalid(f"{field}[{key}]", key, "duplicate of key present in binaryData"))
    return errors


def validate_size(document: Document) -> Errors:
    """Checks the sum of all values."""
    texts = (document.get("data") or {}).values()
    binary_size = sum(map(decoded_size, (document.get("binaryData") or {}).values()))
    # No character takes more than four bytes.
    if binary_size + 4 * sum(map(len, texts)) <= SIZE_MAX:
        return []
    size = binary_size + sum(map(names.byte_length, texts))
    return [too_long(NO_FIELD, SIZE_MAX)] if size > SIZE_MAX else []


def validate_config_map_update(new: Document, old: Document) -> Errors:
    return validate_immutable_flag(new, old, ("data", "binaryData"))


def validate_immutable_flag(new: Document, old: Document, fields: tuple[str, ...]) -> Errors:
    """Checks that an object whose `immutable` is set keeps it, and the fields that it protects."""
    if not old.get("immutable"):
        return []
    changed = [] if new.get("immutable") else ["immutable"]
    changed += [field for field in fields if (new.get(field) or {}) != (old.get(field) or {})]
    return [forbidden(field, "field is immutable when `immutable` is set") for field in changed]


# ---- columns

DATA_TEXT: Final = (
    "How many entries the object holds. Their keys consist of letters, digits, '-', '_' and '.'; what they "
    "contain is shown only when it is asked for."
)


BUILTIN_TYPE: Final = BuiltinType(
    "",
    "v1",
    "configmaps",
    "ConfigMap",
    short_names=("cm",),
    strategy=Strategy(
        validate=validate_config_map,
        validate_size=validate_size,
        update=UpdateStrategy(validate=validate_config_map_update),
    ),
    columns=columns(Column("Data", table.count("data", "binaryData"), DATA_TEXT), AGE),
)
