"""Getters of the texts that field selectors are about, by the paths of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from apiserver.meta.vocabulary import Document


class FieldGetter(Protocol):
    """Reads text of a document, for a field selector. parts: the fields of the object that it is in."""

    @property
    def parts(self) -> tuple[str, ...]: ...

    def __call__(self, document: Document, /) -> str: ...


class FieldText(NamedTuple):
    """Reads the text of the field at a path, for a field selector. default: of a field that is absent."""

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
    """Reads the text of the first of some fields that is not empty."""

    fields: tuple[FieldText, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for field in self.fields for part in field.parts)

    def __call__(self, document: Document) -> str:
        return next(filter(None, (read(document) for read in self.fields)), "")


def field_text(*path: str, default: str = "") -> FieldText:
    """Returns a getter of the text of the field at a path, for a field selector."""
    return FieldText(path, default)


def field_texts(*names: str) -> Mapping[str, FieldText]:
    """Returns getters for field selectors whose names are paths, as `spec.nodeName`."""
    return MappingProxyType({name: field_text(*name.split(".")) for name in names})


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
