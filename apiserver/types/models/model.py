"""A class with fields, whatever library made it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from apiserver.types.constraints import Constraints, constraints_of
from apiserver.types.markers import Rule
from apiserver.types.type_hints import TypeForm, type_form

# The rules that the decorator `rule` has added to a class.
RULES: Final = "__kubernetes_rules__"


class Field(NamedTuple):
    """A field of a model.

    attribute: its name in Python. name: its name in JSON.
    form, constraints: its type, and what its markers say.
    default: returns the default; None if the field is required. The default None means an absent field.
    """

    attribute: str
    name: str
    form: TypeForm
    constraints: Constraints
    default: Callable[[], Any] | None = None


class Model(NamedTuple):
    """A class with fields.

    keeps_unknown: whether its objects may have other fields.
    """

    name: str
    description: str
    fields: list[Field]
    rules: list[Rule]
    keeps_unknown: bool = False


def new_field(
    path: str, attribute: str, hint: Any, default: Callable[[], Any] | None, *, name: str = ""
) -> Field:
    """Returns a field. name: in JSON, if it is not the attribute's; a marker `Name` wins."""
    form = type_form(hint, f"{path}.{attribute}")
    constraints = constraints_of(form.markers, f"{path}.{attribute}")
    if default is None and constraints.default is not None:
        value = constraints.default.value
        default = lambda: value  # noqa: E731  its name would say no more
    return Field(attribute, constraints.name or name or attribute, form, constraints, default)


def constant(value: Any) -> Callable[[], Any]:
    """Returns a function that returns a value."""
    return lambda: value


def description_of(cls: type) -> str:
    """Returns the docstring of a class, without those that dataclasses write and those of bases."""
    text = cls.__dict__.get("__doc__") or ""
    is_signature = text.startswith(f"{cls.__name__}(") and text.endswith(")")
    if "__dataclass_fields__" in cls.__dict__ and is_signature:
        return ""
    return inspect.cleandoc(text)


def rules_of(cls: type) -> list[Rule]:
    """Returns the rules of a class, those of its bases first. TypedDicts do not have bases."""
    return [rule for base in reversed(cls.__mro__) for rule in base.__dict__.get(RULES, ())]
