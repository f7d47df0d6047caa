"""What expressions may name: variables, constants, functions and messages, by full or shorter names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from apiserver.cel.functions import Overload
from apiserver.cel.types import Type
from apiserver.cel.unification import parameter_names


class Declaration(NamedTuple):
    """What a name stands for."""

    type: Type
    is_constant: bool = False
    value: object = None


@dataclass(frozen=True, slots=True, eq=False)
class Declarations:
    """What libraries declare, by full names. Many environments share one."""

    constants: Mapping[str, Declaration]
    functions: Mapping[str, tuple[Overload, ...]]
    # Type parameters of each overload.
    parameters: Mapping[Overload, tuple[str, ...]] = field(init=False)
    # What calls with scalar arguments have turned out to be.
    resolved: dict[object, tuple[tuple[Overload, ...], Type] | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        parameters = {
            overload: tuple(sorted(parameter_names(*overload.args, overload.result)))
            for overloads in self.functions.values()
            for overload in overloads
        }
        object.__setattr__(self, "parameters", parameters)


class NameResolver:
    """What an expression may name.

    own: variables and messages, by full name.
    container: names are looked up in it first, then in what contains it.
    """

    __slots__ = ("_own", "_prefixes", "container", "longest", "vocabulary")

    def __init__(self, own: Mapping[str, Declaration], vocabulary: Declarations, container: str = "") -> None:
        self._own, self.vocabulary, self.container = own, vocabulary, container
        parts = container.split(".") if container else []
        self._prefixes = (*(".".join(parts[:count]) + "." for count in range(len(parts), 0, -1)), "")
        # Of how many parts names may be made, by their first; others need not be looked up.
        self.longest: dict[str, int] = {}
        dotted = [
            name
            for names in (own, vocabulary.constants, vocabulary.functions)
            for name in names
            if "." in name
        ]
        for name in dotted:
            for prefix in self._prefixes:
                if name.startswith(prefix) and "." in (rest := name[len(prefix) :]):
                    first = rest.partition(".")[0]
                    self.longest[first] = max(self.longest.get(first, 0), rest.count(".") + 1)

    def meaning(self, name: str) -> tuple[str, Declaration] | None:
        """The full name, and what it stands for."""
        for candidate in self.candidates(name):
            found = self._own.get(candidate) or self.vocabulary.constants.get(candidate)
            if found is not None:
                return candidate, found
        return None

    def candidates(self, name: str) -> Sequence[str]:
        """The full names that it may be short for, the longest first."""
        if name.startswith("."):
            return (name[1:],)
        return [prefix + name for prefix in self._prefixes] if self.container else (name,)
