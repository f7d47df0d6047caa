"""Checks of single values and of changes to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any, Final

from apiserver.meta import names
from apiserver.meta.field_errors import (
    Errors,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from apiserver.meta.names import NameRule
from apiserver.meta.quantity import Quantity, parse_quantity
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import join

IMMUTABLE: Final = "field is immutable"
# Of fields that may be set, or not, and then stay so.
CREATED: Final = "field cannot be set once created"
CLEARED: Final = "field cannot be cleared once set"
MODIFIED: Final = "field cannot be modified once set"
# Origins of errors, see `FieldError`.
MINIMUM: Final = "minimum"
UNCHANGED: Final = "immutable"
ZERO_OR_ONE: Final = "zeroOrOneOf"


def one_of(
    path: str, value: str | None, supported: Sequence[str], *, required_text: str | None = None
) -> Errors:
    """Checks that a value is one of the supported ones, given in the order in which errors list them.

    required_text: the error for an empty value, which counts as missing and not as unsupported.
    """
    if not value and required_text is not None:
        return [required(path, required_text)]
    return [] if value in supported else [not_supported(path, value or "", supported)]


def one_of_if_set(path: str, value: str | None, supported: Sequence[str]) -> Errors:
    """Checks that a value, if present, is one of the supported ones."""
    return [] if value is None else one_of(path, value, supported)


def named(path: str, value: str | None, rule: NameRule, *, is_required: bool = True) -> Errors:
    """Checks that a text follows a rule for names."""
    if not value:
        return [required(path)] if is_required else []
    return follows(path, value, rule)


def follows(path: str, value: str | None, rule: NameRule) -> Errors:
    """Checks that a text follows a rule for names, even if it is empty, unless it is absent."""
    if value is None or not (problems := rule(value)):
        return []
    return [invalid(path, value, problem) for problem in problems]


def max_bytes(path: str, text: str | None, most: int) -> Errors:
    """Checks the length of a text in UTF-8, if it is present."""
    # No character has more than four bytes.
    if not text or 4 * len(text) <= most or names.byte_length(text) <= most:
        return []
    return [too_long(path, most)]


def max_items(path: str, values: Sized | None, most: int) -> Errors:
    """Checks the number of items of a list or a map, if it is present."""
    count = len(values or ())
    return [too_many(path, count, most)] if count > most else []


def uniqueness() -> Callable[..., Errors]:
    """Returns a check `(path, value, shown=value)` that refuses values which it has seen before.

    shown: the text that the error shows in place of the value.
    """
    seen: set[Any] = set()

    def unique(path: str, value: Any, shown: Any = None) -> Errors:
        if value in seen:
            return [duplicate(path, value if shown is None else shown)]
        seen.add(value)
        return []

    return unique


def no_repeated_items(path: str, values: Iterable[Any]) -> Errors:
    unique = uniqueness()
    return [error for index, each in enumerate(values) for error in unique(f"{path}[{index}]", each)]


def non_negative(path: str, value: int | None) -> Errors:
    return at_least(path, value, 0)


def at_least(path: str, value: int | None, low: int) -> Errors:
    if value is not None and value < low:
        return [invalid(path, value, f"must be greater than or equal to {low}", origin=MINIMUM)]
    return []


def at_most(path: str, value: int | None, high: int) -> Errors:
    if value is not None and value > high:
        return [invalid(path, value, f"must be less than or equal to {high}")]
    return []


def positive(path: str, value: int | None) -> Errors:
    if value is not None and value <= 0:
        return [invalid(path, value, "must be greater than 0")]
    return []


def in_range(path: str, value: int | None, low: int, high: int) -> Errors:
    if value is not None and not low <= value <= high:
        return [invalid(path, value, f"must be between {low} and {high}, inclusive")]
    return []


PORT_MAX: Final = 65_535


def port_number(path: str, value: int | None) -> Errors:
    return in_range(path, value if value is not None else 0, 1, PORT_MAX)


_PORT_NAME_CHARACTERS: Final = re.compile(r"[-a-z0-9]+").fullmatch
_has_letter = re.compile("[a-z]").search


@names.cached
def port_name(name: str) -> list[str]:
    """Returns the errors about an IANA service name. Source: validation.IsValidPortName."""
    problems = []
    if len(name) > 15:
        problems.append("must be no more than 15 characters")
    if not _PORT_NAME_CHARACTERS(name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _has_letter(name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name[:1] == "-" or name[-1:] == "-":
        problems.append("must not begin or end with a hyphen")
    return problems


def port_number_or_name(path: str, value: int | str | None) -> Errors:
    if isinstance(value, str):
        return follows(path, value, port_name)
    return port_number(path, value)


def quantity_of(value: Any) -> Quantity:
    """Returns the quantity in a document that has passed its schema; zero if it is absent."""
    return parse_quantity(str(value)) if value is not None else parse_quantity("0")


def non_negative_quantity(path: str, value: Any) -> Errors:
    if quantity_of(value).value < 0:
        return [invalid(path, value, "must be greater than or equal to 0")]
    return []


def immutable(path: str, new: Any, old: Any) -> Errors:
    """Checks that a value does not change. None is the same as absent, at any depth.

    Releases differ in whether they show fields that are null.
    """
    if new == old or without_nulls(new) == without_nulls(old):
        return []
    return [invalid(path, new, IMMUTABLE, origin=UNCHANGED)]


def immutable_fields(path: str, new: Document, old: Document, fields: Iterable[str]) -> Errors:
    """Checks that some fields of an object do not change. path: that of the object; empty for a whole one."""
    return [
        error for field in fields for error in immutable(join(path, field), new.get(field), old.get(field))
    ]


def immutable_spec(new: Document, old: Document) -> Errors:
    return immutable("spec", new.get("spec"), old.get("spec"))


def without_nulls(value: Any) -> Any:
    """Returns a value without the fields that are null."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def exactly_one(path: str, document: Document, fields: Sequence[str]) -> Errors:
    """Checks that one of some fields is set: the object at `path` is a union of them."""
    every = ", ".join(f"`{each}`" for each in fields)
    given = [each for each in fields if document.get(each) is not None]
    if not given:
        return [invalid(path, "", f"must specify one of: {every}")]
    if len(given) > 1:
        return [invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {every}")]
    return []
