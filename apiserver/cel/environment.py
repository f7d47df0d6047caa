"""Environments, which check expressions of one kind and compile them to programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from apiserver.cel import checker, macros, types
from apiserver.cel.checker import CheckOptions
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.cel.compiler import Program, compile_tree
from apiserver.cel.declarations import Library
from apiserver.cel.functions import Overload
from apiserver.cel.name_resolution import Declaration, Declarations, NameResolver
from apiserver.cel.parser import Macros, parse
from apiserver.cel.syntax import Node
from apiserver.cel.types import Type

_STRICT: Final = CheckOptions()
_NOTHING: Final[Mapping[str, Type]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class CheckedExpression:
    """An expression that has been parsed and type-checked."""

    source: str
    node: Node

    @property
    def type(self) -> Type:
        return self.node.type


class _Language(NamedTuple):
    macros: Macros
    declarations: Declarations


# The most sets of libraries whose declarations are kept: one for each kind of expression and version. There
# are as many environments as schemas with rules, and to put declarations together takes 0.6 ms.
_LANGUAGES_MAX: Final = 64


@lru_cache(_LANGUAGES_MAX)
def _language(libraries: tuple[Library, ...], version: CompatibilityVersion | None) -> _Language:
    there = [each for each in libraries if version is None or version.has(each.since, each.gate)]
    constants = {
        name: Declaration(type_, True, value)
        for library in there
        for name, (type_, value) in library.constants.items()
    }
    return _Language(
        macros.by_name(*(library.macros for library in there)), Declarations(constants, _functions(there))
    )


class Environment:
    """The variables, libraries and message types that expressions may use.

    variables: by name, which may have dots.
    container: names are looked up in it first: with `a.b`, `x` is looked up as `a.b.x`, `a.x`, `x`.
    messages: the object types of which expressions may make values: `Name{field: value}`.
    open_message: the name of a type whose values may have any fields, as may those of types with this name
        before a dot: `Name.spec{field: value}`. Empty if there is none.
    options: the strictness of checks; by default that of Kubernetes.
    """

    def __init__(
        self,
        variables: Mapping[str, Type],
        libraries: Sequence[Library],
        container: str = "",
        messages: Mapping[str, Type] = _NOTHING,
        *,
        open_message: str = "",
        options: CheckOptions = _STRICT,
    ) -> None:
        self._libraries, self._container, self._options = tuple(libraries), container, options
        self._open_message = open_message
        self._own = {
            **{name: Declaration(types.type_of_type(type_), True, type_) for name, type_ in messages.items()},
            **{name: Declaration(type_) for name, type_ in variables.items()},
        }
        self._resolvers: dict[Declarations, NameResolver] = {}

    def check(self, text: str, version: CompatibilityVersion | None = None) -> CheckedExpression:
        """Parse and type-check an expression. Raises `syntax.InvalidExpression`.

        version: the parts of the language that a new expression may use; None: all, as for stored ones.
        """
        macro_rules, declarations = _language(self._libraries, version)
        resolver = self._resolvers.get(declarations)
        if resolver is None:
            resolver = NameResolver(self._own, declarations, self._container, self._open_message)
            self._resolvers[declarations] = resolver
        node = parse(
            text,
            macro_rules,
            optional_syntax="_[?_]" in declarations.functions,
            quoted_fields=self._options.quoted_fields,
        )
        options = self._options if version is None else self._options._replace(version=version)
        return CheckedExpression(text, checker.check(node, text, resolver, options))

    def program(self, checked: CheckedExpression) -> Program:
        """Compile a checked expression to a program. Raises ProgramError."""
        return compile_tree(checked.node)


def _functions(libraries: Sequence[Library]) -> dict[str, tuple[Overload, ...]]:
    """Returns the overloads of each function in all libraries; of overloads with the same id, the last."""
    found: dict[str, dict[tuple[str, bool], Overload]] = {}
    for library in libraries:
        for name, overloads in library.functions.items():
            found.setdefault(name, {}).update({(each.id, each.is_method): each for each in overloads})
    return {name: tuple(overloads.values()) for name, overloads in found.items()}
