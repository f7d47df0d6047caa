"""What is checked of ConfigMaps. Source: pkg/apis/core/validation, ValidateConfigMap."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.field_errors import forbidden, invalid, too_long
from apiserver.meta import names
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors
from apiserver.vocabulary import Document

# Of all values together; a Secret's may be as large.
SIZE_MAX: Final = 1024 * 1024

DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType({})

_KEY: Final = r"[-._a-zA-Z0-9]+"
_is_key = re.compile(_KEY).fullmatch
_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    f"'KEY_NAME',  or 'key-name', regex used for validation is '{_KEY}')"
)


def key(text: str) -> list[str]:
    """A key of a ConfigMap or a Secret, which can become a file's name: what is wrong with it."""
    problems = []
    if len(text.encode("utf-8", "surrogatepass")) > names.SUBDOMAIN_MAX:
        problems.append(f"must be no more than {names.SUBDOMAIN_MAX} characters")
    if not _is_key(text):
        problems.append(_KEY_TEXT)
    if text in (".", ".."):
        problems.append(f"must not be '{text}'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def decoded_size(text: str) -> int:
    """How many bytes a valid base64 text stands for."""
    return len(text) // 4 * 3 - text[-2:].count("=")


def validate_config_map(document: Document) -> Errors:
    data, binary = document.get("data") or {}, document.get("binaryData") or {}
    errors: Errors = []
    for name in data:
        errors += [invalid(f"data[{name}]", name, problem) for problem in key(name)]
        if name in binary:
            errors.append(invalid(f"data[{name}]", name, "duplicate of key present in binaryData"))
    for name in binary:
        errors += [invalid(f"binaryData[{name}]", name, problem) for problem in key(name)]
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in data.values())
    if size + sum(map(decoded_size, binary.values())) > SIZE_MAX:
        errors.append(too_long("", SIZE_MAX))
    return errors


def validate_config_map_update(new: Document, old: Document) -> Errors:
    return validate_immutable_flag(new, old, ("data", "binaryData"))


def validate_immutable_flag(new: Document, old: Document, fields: tuple[str, ...]) -> Errors:
    """What `immutable` protects, itself included."""
    if not old.get("immutable"):
        return []
    changed = [] if new.get("immutable") else ["immutable"]
    changed += [field for field in fields if (new.get(field) or {}) != (old.get(field) or {})]
    return [forbidden(field, "field is immutable when `immutable` is set") for field in changed]
