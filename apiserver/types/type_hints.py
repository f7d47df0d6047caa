"""Takes type hints apart: aliases, new types, generics and `Annotated`, down to a type with its markers."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import (
    Annotated,
    Any,
    Final,
    ForwardRef,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from apiserver.types.errors import Unrepresentable
from apiserver.types.markers import Nullable

# Wrappers of a field's type that say nothing about its values. Newer Pythons have more of them.
WRAPPERS: Final = frozenset({"Final", "NotRequired", "ReadOnly", "Required"})
TypeArguments = Mapping[Any, Any]


class TypeForm(NamedTuple):
    """A type without its wrappers.

    bare: a class, a generic alias, or a union without None.
    markers: what `Annotated` adds, the innermost first.
    is_optional: whether None is one of its values.
    """

    bare: Any
    markers: tuple[Any, ...] = ()
    is_optional: bool = False


def type_form(hint: Any, path: str) -> TypeForm:
    """Returns the form of a type hint. Raises Unrepresentable."""
    markers: tuple[Any, ...] = ()
    is_optional = False
    while True:
        if is_union(hint):
            members = union_members(hint)
            rest = tuple(member for member in members if not _is_none(member) and not _is_unset(member))
            is_optional |= len(rest) < len(members)
            if any(map(_is_none, members)) and any(map(_is_unset, members)):
                markers = (Nullable, *markers)  # UNSET means an absent field, so null is a value.
            if len(rest) != 1:
                return TypeForm(_union_of(rest) if rest else hint, markers, is_optional)
            (hint,) = rest
        elif get_origin(hint) is Annotated:
            markers = (*hint.__metadata__, *markers)
            hint = hint.__origin__
        elif (inner := _unwrapped(hint, path)) is not None:
            hint = inner
        else:
            return TypeForm(hint, markers, is_optional)


def is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def contains_union(bare: Any) -> bool:
    """Returns whether a type is a union, or its items or values are. Raises Unrepresentable."""
    if is_union(bare):
        return True
    if get_origin(bare) is Literal:
        return False
    return any(contains_union(type_form(each, "").bare) for each in get_args(bare) if each is not ...)


def _union_of(members: tuple[Any, ...]) -> Any:
    return reduce(or_, members)


def union_members(hint: Any) -> tuple[Any, ...]:
    """Returns the members of a union; Literals lose None, which becomes a member."""
    return tuple(_members(get_args(hint)))


def _members(hints: tuple[Any, ...]) -> Iterator[Any]:
    for hint in hints:
        if get_origin(hint) is Literal and None in get_args(hint):
            yield from _literal_without_none(hint)
        else:
            yield hint


def _literal_without_none(hint: Any) -> Iterator[Any]:
    yield type(None)
    if rest := tuple(value for value in get_args(hint) if value is not None):
        yield Literal[rest]


def _is_none(hint: Any) -> bool:
    return hint is type(None) or hint is None


def _is_unset(hint: Any) -> bool:
    """Whether a member of a union is the type of msgspec's UNSET, which means an absent field."""
    return getattr(hint, "__name__", "") == "UnsetType"


def _unwrapped(hint: Any, path: str) -> Any:
    """Returns what a hint stands for; None if it stands for itself. Raises Unrepresentable."""
    if isinstance(hint, str | ForwardRef):
        name = hint if isinstance(hint, str) else hint.__forward_arg__
        raise Unrepresentable(
            path, f"the type {name!r} is not defined", "define it in the module of the class"
        )
    if isinstance(hint, TypeVar):
        return _bound(hint, path)
    origin = get_origin(hint) or hint
    if origin is Literal and None in get_args(hint):
        return _union_of(tuple(_literal_without_none(hint)))
    if type(origin).__name__ == "TypeAliasType":  # `type Name = ...`, in Python 3.12 and typing_extensions.
        return substituted(origin.__value__, dict(zip(origin.__type_params__, get_args(hint), strict=False)))
    if hasattr(origin, "__supertype__"):
        return origin.__supertype__
    if getattr(origin, "_name", None) in WRAPPERS and get_args(hint):
        return get_args(hint)[0]
    return None


def _bound(variable: TypeVar, path: str) -> Any:
    if variable.__bound__ is None:
        raise Unrepresentable(path, f"the type variable {variable} has no type", "name one, as in Box[int]")
    return variable.__bound__


# ---- generics


def substituted(hint: Any, arguments: TypeArguments) -> Any:
    """Returns a hint with types in place of type variables."""
    if isinstance(hint, TypeVar):
        return arguments.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        return hint  # A generic class without arguments: its variables are its own.
    if not parameters or arguments.keys().isdisjoint(parameters):
        return hint
    return hint[tuple(arguments.get(each, each) for each in parameters)]


def type_arguments(cls: type, arguments: tuple[Any, ...]) -> dict[type, TypeArguments]:
    """Returns the arguments of a generic class and of its bases, by type variable; far bases come first."""
    own = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
    found: dict[type, TypeArguments] = {cls: own}
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(base)
        if origin is typing.Generic:
            continue
        if isinstance(origin, type):
            given = tuple(substituted(each, own) for each in get_args(base))
            found = {**type_arguments(origin, given), **found}
        elif isinstance(base, type):
            found = {**type_arguments(base, ()), **found}
    return found


def field_hints(cls: type, arguments: tuple[Any, ...], path: str) -> dict[str, Any]:
    """Returns the type hints of a class's fields, with the arguments of generics. Raises Unrepresentable."""
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise undefined_type(cls, error.name, path) from None
    except Exception as error:  # Type hints that are strings are any code.
        reason = f"the type hints of {cls.__name__} raise {type(error).__name__}: {error}"
        raise Unrepresentable(path, reason, "correct the type hint") from error
    by_class = type_arguments(cls, arguments)
    if not any(by_class.values()):
        return hints
    return {name: substituted(hint, _arguments_of(name, cls, by_class)) for name, hint in hints.items()}


def undefined_type(cls: type, name: str | None, path: str) -> Unrepresentable:
    """Returns the error about a type that a class names and its module does not have."""
    uses = re.compile(rf"\b{re.escape(str(name))}\b").search
    fields: list[str] = []
    for base in cls.__mro__:
        with suppress(NameError):  # Python 3.14 evaluates annotations that are not strings.
            fields += [field for field, hint in inspect.get_annotations(base).items() if uses(str(hint))]
    place = f"{path}.{fields[0]}" if fields else path
    return Unrepresentable(place, f"the type {name!r} is not defined", "define it in the module of the class")


def _arguments_of(name: str, cls: type, by_class: Mapping[type, TypeArguments]) -> TypeArguments:
    """Returns the arguments of the class that declares a field.

    The bases of a TypedDict are not in its MRO. It has their annotations, which it cannot override.
    """
    classes = by_class if issubclass(cls, dict) else cls.__mro__
    owner = next(each for each in classes if name in inspect.get_annotations(each))
    return by_class.get(owner, {})
