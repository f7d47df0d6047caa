"""Defaults of single fields."""

from __future__ import annotations

from typing import Any, Final

from apiserver.schema.compile import Default
from apiserver.vocabulary import Document

_EMPTY: Final = (None, "")


def setting(**values: Any) -> Default:
    """A default that sets fields that are absent or empty texts. Values are scalars."""

    defaults = tuple(values.items())

    def complete(value: Document) -> None:
        for name, default in defaults:
            if name not in value or value[name] in _EMPTY:
                value[name] = default

    return complete


def in_turn(*defaults: Default) -> Default:
    """Several defaults of one definition."""

    def complete(value: Document) -> None:
        for default in defaults:
            default(value)

    return complete
