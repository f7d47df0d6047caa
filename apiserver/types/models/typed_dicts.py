"""Reads TypedDicts. Their fields have defaults only by the marker `Default`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

from apiserver.types.models.model import Field, Model, constant, description_of, new_field, rules_of
from apiserver.types.type_hints import WRAPPERS, field_hints


def is_typed_dict(cls: type) -> bool:
    return issubclass(cls, dict) and hasattr(cls, "__required_keys__")


def read_typed_dict(cls: type, arguments: tuple[Any, ...], path: str) -> Model:
    fields = [_field(cls, name, hint, path) for name, hint in field_hints(cls, arguments, path).items()]
    return Model(cls.__name__, description_of(cls), fields, rules_of(cls))


def _field(cls: Any, name: str, hint: Any, path: str) -> Field:
    """Returns a field. The keys of a class with annotations as strings are listed without NotRequired."""
    wrappers = {*_wrappers(hint)}
    is_required = "Required" in wrappers or (name in cls.__required_keys__ and "NotRequired" not in wrappers)
    field = new_field(path, name, hint, None)
    if is_required or field.default is not None:
        return field
    return field._replace(default=constant(None))


def _wrappers(hint: Any) -> Iterator[str]:
    """Yields the names of what is around a type, such as `ReadOnly` and `NotRequired`."""
    while (origin := get_origin(hint)) is Annotated or getattr(origin, "_name", "") in WRAPPERS:
        yield getattr(origin, "_name", "")
        hint = get_args(hint)[0]
