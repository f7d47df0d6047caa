"""Getters of the strings that field selectors compare, by the paths of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from apiserver.meta.vocabulary import Document


class FieldGetter(Protocol):
    """Reads a string of a document, for a field selector. parts: the top-level fields that it is in."""

    @property
    def parts(self) -> tuple[str, ...]: ...

    def __call__(self, document: Document, /) -> str: ...


class FieldText(NamedTuple):
    """Reads the string at a path, for a field selector. default: the value of an absent field."""

    path: tuple[str, ...]
    default: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        return self.path[:1]

    def __call__(self, document: Document) -> str:
        value: Any = document
        for step in self.path:
            value = value.get(step) if isinstance(value, dict) else None
        return self.default if value is None else _as_text(value)


class FirstNonEmptyText(NamedTuple):
    """Reads the first non-empty string of some fields."""

    fields: tuple[FieldText, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for field in self.fields for part in field.parts)

    def __call__(self, document: Document) -> str:
        return next(filter(None, (read(document) for read in self.fields)), "")


def field_text(*path: str, default: str = "") -> FieldText:
    """Returns a getter of the string at a path, for a field selector."""
    return FieldText(path, default)


def field_texts(*names: str) -> Mapping[str, FieldText]:
    """Returns getters for field selectors whose names are paths, as `spec.nodeName`."""
    return MappingProxyType({name: field_text(*name.split(".")) for name in names})


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
