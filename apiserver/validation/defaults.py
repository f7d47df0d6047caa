"""Defaults of single fields."""

from __future__ import annotations

from typing import Any

from apiserver.schema.compile import Default
from apiserver.vocabulary import Document


def setting(**values: Any) -> Default:
    """A default that sets fields that are absent. Values are scalars.

    Where the Go type has no pointer, the schema has removed empty values before; where it has one, an empty
    value is a value, and it is for validation to refuse it.
    """
    defaults = tuple(values.items())

    def complete(value: Document) -> None:
        for name, default in defaults:
            if value.get(name) is None:
                value[name] = default

    return complete


def setting_empty(**values: Any) -> Default:
    """A default that sets fields that are absent or empty: those that Go always encodes."""
    defaults = tuple(values.items())

    def complete(value: Document) -> None:
        for name, default in defaults:
            if not value.get(name):
                value[name] = default

    return complete


def in_turn(*defaults: Default) -> Default:
    """Several defaults of one definition."""

    def complete(value: Document) -> None:
        for default in defaults:
            default(value)

    return complete
