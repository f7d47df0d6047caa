"""A rule as the schema has it, and as it is checked: its trees, what they read, what they may cost.

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from apiserver.apiextensions.schema_rules.references import Part, reads
from apiserver.cel import types
from apiserver.cel.compiler import Program, ProgramError
from apiserver.cel.cost_estimate import estimate
from apiserver.cel.environment import Environment
from apiserver.cel.library.kubernetes import KUBERNETES
from apiserver.cel.syntax import InvalidExpression, Node
from apiserver.cel.types import Type, TypeKind
from apiserver.schema.custom.json_schema import JSONSchema
from apiserver.vocabulary import Document

SELF: Final = "self"
OLD_SELF: Final = "oldSelf"
# The release whose libraries new expressions may use: the one before this, if a server has to go back to it.
NEW: Final = (1, 35)


@dataclass(frozen=True, slots=True)
class Rule:
    """reason, optional_old_self: None where it is not said."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str | None = None
    field_path: str = ""
    optional_old_self: bool | None = None

    @classmethod
    def of(cls, document: Document) -> Rule:
        return cls(
            rule=document.get("rule", ""),
            message=document.get("message", ""),
            message_expression=document.get("messageExpression", ""),
            reason=document.get("reason"),
            field_path=document.get("fieldPath", ""),
            optional_old_self=document.get("optionalOldSelf"),
        )

    @property
    def shown(self) -> str:
        """As messages about its evaluation call it."""
        return self.message.strip() or self.rule.strip()

    @property
    def default_message(self) -> str:
        """That it does not hold, if messageExpression says nothing."""
        return self.message.strip() or f"failed rule: {self.rule.strip()}"


def rules_of(schema: JSONSchema, vendor: str) -> tuple[Rule, ...]:
    return tuple(map(Rule.of, schema.get(f"x-{vendor}-validations") or ()))


@dataclass(frozen=True, slots=True)
class Expression:
    """reads: its variables, and what of them."""

    node: Node
    program: Program
    reads: Part

    @property
    def uses_old(self) -> bool:
        return OLD_SELF in self.reads.fields


@dataclass(frozen=True, slots=True)
class CompilationResult:
    """Errors say why an expression is not there. A rule without text has neither."""

    rule: Rule
    expression: Expression | None = None
    error: str | None = None
    message: Expression | None = None
    message_error: str | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(each for each in (self.expression, self.message) if each is not None)


class Checker:
    """Checks the rules of one schema, whose values are of a type."""

    def __init__(self, self_type: Type) -> None:
        self._type = self_type

    # Old values may be missing only in rules that allow for it.

    @cached_property
    def _with_old(self) -> Environment:
        return Environment({SELF: self._type, OLD_SELF: self._type}, KUBERNETES)

    @cached_property
    def _with_optional_old(self) -> Environment:
        return Environment({SELF: self._type, OLD_SELF: types.optional_of(self._type)}, KUBERNETES)

    def check(self, rule: Rule, *, stored: frozenset[str] | None) -> CompilationResult:
        """stored: expressions that may use what later releases have, since they were accepted; None: all."""
        if not rule.rule.strip():
            return CompilationResult(rule)
        environment = self._with_optional_old if rule.optional_old_self else self._with_old
        try:
            expression = _compiled(environment, rule.rule, _BOOL, stored)
        except _InvalidExpression as error:
            return CompilationResult(rule, error=str(error))
        if not rule.message_expression:
            return CompilationResult(rule, expression)
        try:
            message = _compiled(environment, rule.message_expression, _STRING, stored)
        except _InvalidExpression as error:
            return CompilationResult(rule, expression, message_error=str(error))
        return CompilationResult(rule, expression, message=message)

    def worst_cost(self, expression: Expression) -> int:
        return estimate(expression.node, self._type).high


class _InvalidExpression(Exception):
    """The message is the client's."""


class _ExpectedType(NamedTuple):
    """What an expression must evaluate to, and how messages about that begin."""

    kind: TypeKind
    of_type: str
    of_text: str
    of_program: str


_BOOL: Final = _ExpectedType(
    TypeKind.BOOL,
    "cel expression must evaluate to a bool",
    "compilation failed",
    "program instantiation failed",
)
_STRING: Final = _ExpectedType(
    TypeKind.STRING,
    "messageExpression must evaluate to a string",
    "messageExpression compilation failed",
    "messageExpression instantiation failed",
)


def _compiled(
    environment: Environment, text: str, wanted: _ExpectedType, stored: frozenset[str] | None
) -> Expression:
    """Raises _Refused."""
    is_stored = stored is None or text in stored
    try:
        checked = environment.check(text, release=None if is_stored else NEW)
        if checked.type.kind is not wanted.kind:
            raise _InvalidExpression(wanted.of_type)
        return Expression(checked.node, environment.program(checked), reads(checked.node))
    except InvalidExpression as error:
        raise _InvalidExpression(f"{wanted.of_text}: {error}") from None
    except ProgramError as error:
        raise _InvalidExpression(f"{wanted.of_program}: {error}") from None
