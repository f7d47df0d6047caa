"""Reads msgspec structs, by their attributes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal

from apiserver.types.errors import Unrepresentable
from apiserver.types.models.model import Field, Model, constant, description_of, new_field, rules_of
from apiserver.types.type_hints import field_hints


def is_struct(cls: type) -> bool:
    return hasattr(cls, "__struct_fields__")


def read_struct(cls: Any, arguments: tuple[Any, ...], path: str) -> Model:
    """Returns the model of a struct. Its tag is a field, the first one, whose only value is the tag."""
    if cls.__struct_config__.array_like:
        raise Unrepresentable(path, f"msgspec writes {cls.__name__} as an array", "remove array_like=True")
    no_default = sys.modules["msgspec"].NODEFAULT
    by_name = {field.name: field for field in sys.modules["msgspec"].structs.fields(cls)}
    # Structs list their fields with kw_only last. The type hints are in the order of the classes.
    fields = [
        new_field(path, name, hint, _default(field, no_default), name=field.encode_name)
        for name, hint in field_hints(cls, arguments, path).items()
        if (field := by_name.get(name)) is not None
    ]
    return Model(cls.__name__, description_of(cls), [*_tag(cls, path), *fields], rules_of(cls))


def _default(field: Any, no_default: Any) -> Callable[[], Any] | None:
    if field.default_factory is not no_default:
        factory: Callable[[], Any] = field.default_factory
        return factory
    return None if field.default is no_default else constant(field.default)


def _tag(cls: Any, path: str) -> list[Field]:
    config = cls.__struct_config__
    if config.tag is None:
        return []
    return [new_field(path, config.tag_field, Literal[config.tag], constant(config.tag))]


def struct_arguments(cls: Any, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the arguments of a struct's constructor, which does not take the tag. values: by attribute."""
    return {name: value for name, value in values.items() if name in cls.__struct_fields__}
