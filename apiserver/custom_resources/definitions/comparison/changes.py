"""A change from one definition to another."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

# Longer values are cut in messages.
_SHOWN_MAX: Final = 200


class Change(NamedTuple):
    """A change, and whether it is breaking.

    kind: a word for programs, as `FieldRemoved`.
    path: the field, in objects of `version`, or in the definition if that is empty.
    message: one or more sentences.
    """

    kind: str
    path: str
    is_breaking: bool
    message: str
    version: str = ""


def breaking(kind: str, path: str, message: str) -> Change:
    return Change(kind, path, True, message)


def note(kind: str, path: str, message: str) -> Change:
    return Change(kind, path, False, message)


def shown(value: Any) -> str:
    """Returns a value as JSON, for messages."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
