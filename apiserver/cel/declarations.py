"""The classes that describe a library of functions and macros; `library` has a module for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apiserver.cel.functions import Overload
from apiserver.cel.syntax import Node
from apiserver.cel.types import Type, type_of_type


@dataclass(frozen=True, slots=True, eq=False)
class MacroRule:
    """A rule for a call that is rewritten while the text is parsed.

    expand: called with (offset, receiver, arguments); returns the tree, or raises `MacroError`.
    """

    name: str
    arg_count: int
    is_method: bool
    expand: Callable[[int, Node | None, tuple[Node, ...]], Node]


class MacroError(Exception):
    """A macro with invalid arguments."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message, self.offset = message, offset


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """A library: the functions, macros and constants that it adds to the language.

    functions: the overloads of each function, by name (`_+_`, `size`, `math.greatest`); a name with dots is a
        function of a namespace.
    constants: names with their types and values; these include names of types.
    since, gate: the requirements of new expressions for using it, see `CompatibilityVersion.has`; stored ones
        may use all.
    """

    name: str
    functions: Mapping[str, tuple[Overload, ...]] = field(default_factory=dict)
    macros: tuple[MacroRule, ...] = ()
    constants: Mapping[str, tuple[Type, Any]] = field(default_factory=dict)
    since: tuple[int, int] = (1, 0)
    gate: str = ""


def named_types(*found: Type) -> Mapping[str, tuple[Type, Any]]:
    """Returns types as the constants of a library, by their names."""
    return {each.name: (type_of_type(each), each) for each in found}
