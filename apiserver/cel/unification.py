"""Unifies types: checks whether a type can be assigned to another, and binds type parameters.

The rules are cel-go's (checker/types.go): dyn and errors fit everywhere, null fits nullable types, other
types must be the same up to their parameters.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Final

from apiserver.cel import types
from apiserver.cel.types import Type, TypeKind

DYN_OR_ERROR: Final = frozenset({TypeKind.DYN, TypeKind.ERROR})
SCALARS: Final = frozenset(
    {
        TypeKind.NULL,
        TypeKind.BOOL,
        TypeKind.INT,
        TypeKind.UINT,
        TypeKind.DOUBLE,
        TypeKind.STRING,
        TypeKind.BYTES,
        TypeKind.TIMESTAMP,
        TypeKind.DURATION,
    }
)
_NULLABLE: Final = frozenset(
    {
        TypeKind.NULL,
        TypeKind.OBJECT,
        TypeKind.OPAQUE,
        TypeKind.OPTIONAL,
        TypeKind.TIMESTAMP,
        TypeKind.DURATION,
    }
)
_CONTAINERS: Final = frozenset({TypeKind.LIST, TypeKind.MAP, TypeKind.OPAQUE, TypeKind.OPTIONAL})


# The most types that a type may be made of: `list(list(int))` is made of three. Where an expression puts
# values into maps again and again, they would double each time.
SIZE_MAX: Final = 128


class TooComplex(Exception):
    """A type that consists of more than SIZE_MAX types."""


class Unifier:
    """Binds type parameters, by name."""

    __slots__ = ("_bound", "_count", "_known")

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._count = 0
        self._known: dict[int, tuple[int, bool, Type]] = {}

    def fresh(self) -> Type:
        """Returns a parameter that is not bound."""
        self._count += 1
        return types.parameter(f"_var{self._count - 1}")

    def assignable(self, given: Type, wanted: Type) -> bool:
        return self.all_assignable((given,), (wanted,))

    def all_assignable(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Whether each type can be assigned; only then are parameters bound."""
        if len(given) != len(wanted):
            return False
        undo: list[tuple[str, Type | None]] = []
        if all(self._is_assignable(a, b, undo) for a, b in zip(given, wanted, strict=True)):
            return True
        for name, before in reversed(undo):
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before
        return False

    def substitute(self, type_: Type, *, free: Type | None = None) -> Type:
        """Replace all bound parameters of a type. free: replaces the others, if given."""
        if type_.kind is TypeKind.PARAMETER:
            bound = self._bound.get(type_.name)
            if bound is not None:
                return self.substitute(bound, free=free)
            return type_ if free is None else free
        if not type_.parameters:
            return type_
        inner = tuple([self.substitute(parameter, free=free) for parameter in type_.parameters])
        if all(map(operator.is_, inner, type_.parameters)):
            return type_
        return Type(type_.kind, type_.name, inner, type_.fields, type_.size_max, type_.size_min)

    def has_free_parameters(self, type_: Type) -> bool:
        """Whether a type has parameters in it. Raises TooComplex."""
        return self._measured(type_)[1]

    def _measured(self, type_: Type) -> tuple[int, bool, Type]:
        """Returns the number of types in a type, and whether a parameter is among them."""
        if not type_.parameters:
            return 1, type_.kind is TypeKind.PARAMETER, type_
        known = self._known.get(id(type_))
        if known is None:
            inner = [self._measured(parameter) for parameter in type_.parameters]
            size = 1 + sum(each[0] for each in inner)
            if size > SIZE_MAX:
                raise TooComplex
            known = self._known[id(type_)] = size, any(each[1] for each in inner), type_
        return known

    def _is_assignable(self, given: Type, wanted: Type, undo: list[tuple[str, Type | None]]) -> bool:
        if given is wanted:
            return True
        if wanted.kind is TypeKind.PARAMETER:
            valid, is_bound = self._is_valid_substitution(given, wanted, undo)
            if valid or is_bound:
                return valid
        if given.kind is TypeKind.PARAMETER:
            return self._is_valid_substitution(wanted, given, undo)[0]
        if given.kind in DYN_OR_ERROR or wanted.kind in DYN_OR_ERROR:
            return True
        if given.kind is TypeKind.NULL:
            return wanted.kind in _NULLABLE
        if wanted.kind is TypeKind.NULL:
            return given.kind in _NULLABLE
        if given.kind is not wanted.kind:
            return False
        if given.kind in _CONTAINERS:
            return (
                given.name == wanted.name
                and len(given.parameters) == len(wanted.parameters)
                and all(
                    self._is_assignable(a, b, undo)
                    for a, b in zip(given.parameters, wanted.parameters, strict=True)
                )
            )
        return given.kind is not TypeKind.OBJECT or given.name == wanted.name

    def _is_valid_substitution(
        self, type_: Type, parameter: Type, undo: list[tuple[str, Type | None]]
    ) -> tuple[bool, bool]:
        """Returns whether the parameter can be bound to the type, and whether it was bound before."""
        if type_ == parameter:
            return True, True
        bound = self._bound.get(parameter.name)
        if bound is None:
            if self._occurs(parameter.name, type_):
                return False, False
            undo.append((parameter.name, None))
            self._bound[parameter.name] = type_
            return True, False
        if type_ == bound:
            return True, True
        if not self._is_assignable(type_, bound, undo):
            return False, True
        general = most_general(type_, bound)
        if not self._occurs(parameter.name, general):
            undo.append((parameter.name, bound))
            self._bound[parameter.name] = general
        return True, True

    def _occurs(self, name: str, type_: Type) -> bool:
        while type_.kind is TypeKind.PARAMETER:
            if type_.name == name:
                return True
            bound = self._bound.get(type_.name)
            if bound is None:
                return False
            type_ = bound
        return any(self._occurs(name, parameter) for parameter in type_.parameters)


def has_parameters(type_: Type) -> bool:
    """Whether a type has a parameter anywhere in it."""
    return type_.kind is TypeKind.PARAMETER or (
        bool(type_.parameters) and any(has_parameters(inner) for inner in type_.parameters)
    )


def with_parameters(type_: Type, names: dict[str, Type]) -> Type:
    """Returns the type with its parameters replaced by these types."""
    if type_.kind is TypeKind.PARAMETER:
        return names.get(type_.name, type_)
    if not has_parameters(type_):
        return type_
    return Type(type_.kind, type_.name, tuple(with_parameters(inner, names) for inner in type_.parameters))


def parameter_names(*all_types: Type) -> set[str]:
    found: set[str] = set()
    for type_ in all_types:
        if type_.kind is TypeKind.PARAMETER:
            found.add(type_.name)
        found |= parameter_names(*type_.parameters)
    return found


def most_general(a: Type, b: Type) -> Type:
    """Returns the less specific of two types that fit each other; of null and a nullable type the latter."""
    return a if b.kind is TypeKind.NULL or _is_equal_or_less_specific(a, b) else b


def _is_equal_or_less_specific(a: Type, b: Type) -> bool:
    if a.kind is TypeKind.DYN or a.kind is TypeKind.PARAMETER:
        return True
    if b.kind is TypeKind.DYN or b.kind is TypeKind.PARAMETER or a.kind is not b.kind:
        return False
    if a.kind in _CONTAINERS:
        return (
            a.name == b.name
            and len(a.parameters) == len(b.parameters)
            and all(map(_is_equal_or_less_specific, a.parameters, b.parameters))
        )
    return a.kind is TypeKind.TYPE or a.name == b.name
