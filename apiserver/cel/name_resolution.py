"""Resolves names in expressions: variables, constants, functions and messages, full or relative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from apiserver.cel.functions import Overload
from apiserver.cel.types import Type, open_object, type_of_type
from apiserver.cel.unification import parameter_names


class Declaration(NamedTuple):
    """A variable, constant or type, by its full name."""

    type: Type
    is_constant: bool = False
    value: object = None


@dataclass(frozen=True, slots=True, eq=False)
class Declarations:
    """The declarations of libraries, by full name. Many environments share one instance."""

    constants: Mapping[str, Declaration]
    functions: Mapping[str, tuple[Overload, ...]]
    # The names of the type parameters of each overload.
    parameters: Mapping[Overload, tuple[str, ...]] = field(init=False)
    # What calls with scalar arguments have been resolved to, by function and types.
    resolved: dict[object, tuple[tuple[Overload, ...], Type] | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        parameters = {
            overload: tuple(sorted(parameter_names(*overload.args, overload.result)))
            for overloads in self.functions.values()
            for overload in overloads
        }
        object.__setattr__(self, "parameters", parameters)


class NameResolver:
    """Finds the declarations of names in an environment.

    own: the environment's variables and messages, by full name.
    container: names are looked up in it first, then in its parents.
    open_message: see `environment.Environment`.
    """

    __slots__ = ("_open_message", "_own", "_prefixes", "container", "declarations", "name_parts_max")

    def __init__(
        self,
        own: Mapping[str, Declaration],
        declarations: Declarations,
        container: str = "",
        open_message: str = "",
    ) -> None:
        self._own, self.declarations, self.container = own, declarations, container
        self._open_message = open_message
        parts = container.split(".") if container else []
        self._prefixes = (*(".".join(parts[:count]) + "." for count in range(len(parts), 0, -1)), "")
        # The most parts that names with dots have, by their first part; other names need not be looked up.
        self.name_parts_max: dict[str, int] = {}
        dotted = [
            name
            for names in (own, declarations.constants, declarations.functions)
            for name in names
            if "." in name
        ]
        for name in dotted:
            for prefix in self._prefixes:
                if name.startswith(prefix) and "." in (rest := name[len(prefix) :]):
                    first = rest.partition(".")[0]
                    self.name_parts_max[first] = max(self.name_parts_max.get(first, 0), rest.count(".") + 1)

    def resolve(self, name: str) -> tuple[str, Declaration] | None:
        """Returns the full name and its declaration; None if it is not declared."""
        for candidate in self.candidates(name):
            found = self._own.get(candidate) or self.declarations.constants.get(candidate)
            if found is not None:
                return candidate, found
        return None

    def resolve_message(self, name: str) -> tuple[str, Declaration] | None:
        """Resolve the name of a message, as `resolve` does; its type may also be open."""
        found = self.resolve(name)
        if found is None and self._open_message:
            for candidate in self.candidates(name):
                if candidate == self._open_message or candidate.startswith(f"{self._open_message}."):
                    type_ = open_object(candidate)
                    return candidate, Declaration(type_of_type(type_), True, type_)
        return found

    def candidates(self, name: str) -> Sequence[str]:
        """Returns the full names that a name may refer to, the longest first."""
        if name.startswith("."):
            return (name[1:],)
        return [prefix + name for prefix in self._prefixes] if self.container else (name,)
