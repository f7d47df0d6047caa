"""Errors about fields, with the reasons and texts of Kubernetes.

Source: k8s.io/apimachinery, pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

from apiserver.golang.formatting import HTML_ESCAPES
from apiserver.golang.quoting import go_quote

# Longer values are truncated, since messages go into logs and terminals.
VALUE_LENGTH_MAX: Final = 8_192
# A thousand errors may each quote a long value, or list all that is allowed. Clients read the first.
ERRORS_LENGTH_MAX: Final = 512 * 1024
# A member's name may fill a body, and a thousand errors below it would each repeat it: gigabytes.
PATH_LENGTH_MAX: Final = 1_024
# The cause type of errors that may have many reasons.
INVALID: Final = "FieldValueInvalid"
# How Kubernetes shows the path of errors that are about no single field.
NO_FIELD: Final = "[]"
# The text that errors show in place of a confidential value.
REDACTED: Final = '"<secret contents redacted>"'


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error about one field.

    field: the path, as `spec.containers[0].name`.
    reason: Kubernetes' cause type, as `FieldValueInvalid`.
    message: the text after the path.
    origin: the violated rule, where a field has several "invalid" errors, and declarative validation finds
        the same (`validation.declarative`). Clients do not see it.
    quoted: the value as `message` shows it, for `invalid` errors.
    """

    field: str
    reason: str
    message: str
    origin: str = dataclasses.field(default="", compare=False)
    quoted: str = dataclasses.field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def without_value(self) -> FieldError:
        """Returns the same error with its value redacted. The rest of its text may reveal parts of it."""
        if not self.quoted:
            return self
        return FieldError(self.field, self.reason, self.message.replace(self.quoted, REDACTED, 1))

    def without_quoted(self) -> FieldError:
        """Returns the same error without the quoted value, and without a placeholder for it."""
        if not self.quoted:
            return self
        message = self.message.replace(f": {self.quoted}", "", 1)
        return FieldError(self.field, self.reason, message, self.origin)

    def without_text(self) -> FieldError:
        """Returns the same error without any text that depends on a value."""
        title, has_value = _TITLES.get(self.reason, ("Invalid value", True))
        return FieldError(self.field, self.reason, f"{title}: {REDACTED}" if has_value else title)


Errors: TypeAlias = list[FieldError]
# How errors of each type begin, and whether they quote a value.
_TITLES: Final[Mapping[str, tuple[str, bool]]] = {
    INVALID: ("Invalid value", True),
    "FieldValueTypeInvalid": ("Invalid value", True),
    "FieldValueDuplicate": ("Duplicate value", True),
    "FieldValueNotFound": ("Not found", True),
    "FieldValueNotSupported": ("Unsupported value", True),
    "FieldValueRequired": ("Required value", False),
    "FieldValueForbidden": ("Forbidden", False),
    "FieldValueTooLong": ("Too long", False),
    "FieldValueTooMany": ("Too many", False),
    "InternalError": ("Internal error", False),
}


def invalid(field: str, value: object, detail: str, *, origin: str = "") -> FieldError:
    quoted = quote(value)
    return FieldError(field, INVALID, _with_detail(f"Invalid value: {quoted}", detail), origin, quoted)


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(field, "FieldValueRequired", _with_detail("Required value", detail))


def forbidden(field: str, detail: str = "") -> FieldError:
    return FieldError(field, "FieldValueForbidden", _with_detail("Forbidden", detail))


def duplicate(field: str, value: object) -> FieldError:
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {quote(value)}")


def not_supported(field: str, value: object, supported: Sequence[str]) -> FieldError:
    values = ", ".join(map(quote, supported))
    return FieldError(
        field, "FieldValueNotSupported", f"Unsupported value: {quote(value)}: supported values: {values}"
    )


def not_found(field: str, value: object) -> FieldError:
    return FieldError(field, "FieldValueNotFound", f"Not found: {quote(value)}")


def too_long(field: str, limit_bytes: int) -> FieldError:
    return FieldError(field, "FieldValueTooLong", f"Too long: {_not_more_than(limit_bytes, 'byte')}")


def longer_than(field: str, limit: int) -> FieldError:
    """Returns Kubernetes' error until 1.31 for long texts and long lists alike: TooLongMaxLength."""
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be longer than {limit}")


def too_long_characters(field: str, limit: int) -> FieldError:
    return FieldError(field, "FieldValueTooLong", f"Too long: {_not_more_than(limit, 'character')}")


def _not_more_than(limit: int, unit: str) -> str:
    if limit < 0:  # A definition may have it.
        return "value is too long"
    return f"may not be more than {limit} {unit}{'' if limit == 1 else 's'}"


def too_many(field: str, count: int, limit: int) -> FieldError:
    items = "item" if limit == 1 else "items"
    allowed = "has too many items" if limit < 0 else f"must have at most {limit} {items}"
    return FieldError(field, "FieldValueTooMany", f"Too many: {count}: {allowed}")


def quote(value: object) -> str:
    """Returns a value as messages show it: strings quoted as in Go, all others as JSON."""
    if isinstance(value, str):
        return truncated(go_quote(value[: VALUE_LENGTH_MAX + 1]))  # What is cut off need not be quoted.
    try:
        text = orjson.dumps(value).decode()
    except TypeError:  # too deep
        return "{...}"
    return truncated(text[: VALUE_LENGTH_MAX + 1].translate(HTML_ESCAPES))


def truncated(text: str) -> str:
    """Returns a client's text, in at most VALUE_LENGTH_MAX characters and an ellipsis."""
    return text if len(text) <= VALUE_LENGTH_MAX else f"{text[:VALUE_LENGTH_MAX]}..."


# ---- paths


def field_below(path: str, name: str) -> str:
    """Returns the path of a field of the object at `path`, which is empty for the root: `spec`, `a` ->
    `spec.a`.

    Paths that are too long are cut.
    """
    return _below(path, f".{name[:PATH_LENGTH_MAX]}") if path else truncated_path(name)


def item_below(path: str, index: int) -> str:
    """Returns the path of an item of the list at `path`. Paths that are too long are cut."""
    return _below(path, f"[{index}]")


def key_below(path: str, key: str) -> str:
    """Returns the path of a value of the map at `path`. Paths that are too long are cut."""
    return _below(path, f"[{key[:PATH_LENGTH_MAX]}]")


def _below(path: str, step: str) -> str:
    return path if len(path) > PATH_LENGTH_MAX else truncated_path(path + step)


def truncated_path(path: str) -> str:
    """Returns a path in at most PATH_LENGTH_MAX characters and an ellipsis."""
    return path if len(path) <= PATH_LENGTH_MAX else f"{path[:PATH_LENGTH_MAX]}..."


# ---- several errors


def reported(errors: Iterable[FieldError]) -> list[FieldError]:
    """Returns the first errors, as many as fit into a Status."""
    found: list[FieldError] = []
    room = ERRORS_LENGTH_MAX
    for error in errors:
        room -= len(error.field) + len(error.message)
        if room < 0 and found:
            break
        found.append(error)
    return found


def causes(errors: Iterable[FieldError]) -> list[dict[str, Any]]:
    """Returns the errors as `details.causes` of a Status."""
    return [{"reason": e.reason, "message": e.message, "field": e.field} for e in errors]


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text
