"""What one kind of expression may use; and the way of an expression from text to program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from apiserver.cel import checker, macros, types
from apiserver.cel.checker import Rules
from apiserver.cel.compiler import Program, compile_tree
from apiserver.cel.functions import Library, Overload
from apiserver.cel.name_resolution import Declaration, Declarations, NameResolver
from apiserver.cel.parser import Macros, parse
from apiserver.cel.syntax import Node
from apiserver.cel.types import Type

_STRICT: Final = Rules()
_NOTHING: Final[Mapping[str, Type]] = MappingProxyType({})
Release = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """An expression of which all names are known and all types fit."""

    source: str
    node: Node

    @property
    def type(self) -> Type:
        return self.node.type


class _Language(NamedTuple):
    """Of libraries, or of all that an environment has."""

    macros: Macros
    vocabulary: Declarations


# Of how many sets of libraries what they declare is kept: one for each kind of expression and release.
_LANGUAGES_MAX: Final = 64


@lru_cache(_LANGUAGES_MAX)
def _language(libraries: tuple[Library, ...], release: Release | None) -> _Language:
    there = [each for each in libraries if release is None or each.since <= release]
    constants = {
        name: Declaration(type_, True, value)
        for library in there
        for name, (type_, value) in library.constants.items()
    }
    rules = macros.by_name(*(library.macros for library in there))
    return _Language(rules, Declarations(constants, _functions(there)))


class Environment:
    """Variables, libraries and messages that expressions may name.

    variables: by name, which may have dots.
    container: names are looked up in it first: `a.b` finds `x` as `a.b.x`, `a.x`, `x`.
    messages: object types that expressions may make values of: `Name{field: value}`.
    rules: how strictly expressions are checked; as Kubernetes does, unless told otherwise.
    """

    def __init__(
        self,
        variables: Mapping[str, Type],
        libraries: Sequence[Library],
        container: str = "",
        messages: Mapping[str, Type] = _NOTHING,
        *,
        rules: Rules = _STRICT,
    ) -> None:
        self._libraries, self._container, self._rules = tuple(libraries), container, rules
        self._own = {
            **{name: Declaration(types.type_of_type(type_), True, type_) for name, type_ in messages.items()},
            **{name: Declaration(type_) for name, type_ in variables.items()},
        }
        self._names: dict[Declarations, NameResolver] = {}

    def check(self, text: str, release: Release | None = None) -> Checked:
        """release: libraries of later ones are not there; None: all are. Raises `syntax.Invalid`."""
        rules, vocabulary = _language(self._libraries, release)
        names = self._names.get(vocabulary)
        if names is None:
            names = self._names[vocabulary] = NameResolver(self._own, vocabulary, self._container)
        node = parse(
            text,
            rules,
            optional_syntax="_[?_]" in vocabulary.functions,
            quoted_fields=self._rules.quoted_fields,
        )
        return Checked(text, checker.check(node, text, names, self._rules))

    def program(self, checked: Checked) -> Program:
        """Raises NotRunnable."""
        return compile_tree(checked.node)


def _functions(libraries: Sequence[Library]) -> dict[str, tuple[Overload, ...]]:
    """All overloads of a function, of whatever library; of those with one id, the last."""
    found: dict[str, dict[tuple[str, bool], Overload]] = {}
    for library in libraries:
        for name, overloads in library.functions.items():
            found.setdefault(name, {}).update({(each.id, each.is_method): each for each in overloads})
    return {name: tuple(overloads.values()) for name, overloads in found.items()}
