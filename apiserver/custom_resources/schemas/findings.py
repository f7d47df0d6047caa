"""Errors of values that their schema does not allow, with the messages of Kubernetes."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from apiserver.golang.formatting import number_text
from apiserver.golang.quoting import go_quote
from apiserver.meta.field_errors import FieldError, quote

# A message, and the error that it is of.
Finding: TypeAlias = tuple[str, FieldError]
# Errors by their messages: each is reported once.
ErrorsByMessage: TypeAlias = dict[str, FieldError]

# The field of an error that names none.
NO_FIELD: Final = "<nil>"


def field_of(path: str) -> str:
    return path.removeprefix(".") or NO_FIELD


def moved(error: FieldError, path: str) -> FieldError:
    """Returns an error of a value as one of the value at a path."""
    field = path if error.field == NO_FIELD else f"{path}.{error.field}"
    return FieldError(field, error.reason, error.message, error.origin, error.quoted)


def add(errors: ErrorsByMessage, *findings: Finding) -> None:
    for text, error in findings:
        errors.setdefault(text, error)


def invalid_value(path: str, value: Any, text: str) -> Finding:
    value_text = number_text(value) if type(value) in (int, float) else quote(value)
    message = f"Invalid value: {value_text}: {text}"
    return text, FieldError(field_of(path), "FieldValueInvalid", message, quoted=value_text)


def wrong_type(path: str, expected: str, actual: str) -> Finding:
    quoted = quote(actual)
    text = f"{path} in body must be of type {expected}: {go_quote(actual)}"
    message = f"Invalid value: {quoted}: {text}"
    return text, FieldError(field_of(path), "FieldValueTypeInvalid", message, quoted=quoted)


def general(text: str) -> Finding:
    """Returns an error without a field, though its message may name one."""
    return text, FieldError(NO_FIELD, "FieldValueInvalid", f'Invalid value: "": {text}')
