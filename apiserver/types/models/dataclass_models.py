"""Reads dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from apiserver.types.models.model import Field, Model, constant, description_of, new_field, rules_of
from apiserver.types.type_hints import field_hints


def is_dataclass(cls: type) -> bool:
    return dataclasses.is_dataclass(cls)


def read_dataclass(cls: type, arguments: tuple[Any, ...], path: str) -> Model:
    """Returns the model of a dataclass; fields that its constructor does not take are left out."""
    hints = field_hints(cls, arguments, path)
    fields: list[Field] = [
        new_field(path, field.name, hints[field.name], _default(field))
        for field in dataclasses.fields(cls)
        if field.init
    ]
    return Model(cls.__name__, description_of(cls), fields, rules_of(cls))


def _default(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    if field.default is not dataclasses.MISSING:
        return constant(field.default)
    return None
