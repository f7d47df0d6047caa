"""Functions that set defaults of single fields."""

from __future__ import annotations

from typing import Any

from apiserver.meta.quantity import parse_quantity
from apiserver.meta.vocabulary import Document
from apiserver.schema.compile import Default


def setting(**values: Any) -> Default:
    """Returns a default that sets absent fields. Values are scalars.

    The schema has already removed empty values of fields without pointers in Go; an empty value of a pointer
    is a value, and validation may refuse it.
    """
    defaults = tuple(values.items())

    def complete(value: Document) -> None:
        for name, default in defaults:
            if value.get(name) is None:
                value[name] = default

    return complete


def setting_empty(**values: Any) -> Default:
    """Returns a default that sets fields which are absent or empty: those that Go always encodes."""
    defaults = tuple(values.items())

    def complete(value: Document) -> None:
        for name, default in defaults:
            if not value.get(name):
                value[name] = default

    return complete


def rounding(*fields: str) -> Default:
    """Returns a default that rounds the amounts of resources in these fields up to thousandths."""

    def complete(value: Document) -> None:
        for field in fields:
            if amounts := value.get(field):
                _round_up(amounts)

    return complete


def _round_up(amounts: Document) -> None:
    for name, text in amounts.items():
        if text[-1] in "nu" or not text.isalnum():  # a fraction, or an exponent
            amounts[name] = str(parse_quantity(text).with_scale(-3))


def in_turn(*defaults: Default) -> Default:
    """Returns a default that applies several defaults, in order."""

    def complete(value: Document) -> None:
        for default in defaults:
            default(value)

    return complete
