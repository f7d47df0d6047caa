"""Compiles the rules of a schema.

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.cel import types
from apiserver.cel.compatibility_version import ExpressionVersions
from apiserver.cel.compiler import Program, ProgramError
from apiserver.cel.cost_estimate import estimate
from apiserver.cel.kubernetes_environments import kubernetes_environment
from apiserver.cel.references import References, references
from apiserver.cel.syntax import InvalidExpression, Node
from apiserver.cel.types import Type, TypeKind
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.meta.vocabulary import Document
from apiserver.schema.extensions import Extensions

if TYPE_CHECKING:
    from apiserver.cel.environment import Environment

SELF: Final = "self"
OLD_SELF: Final = "oldSelf"


class ValidationRule(NamedTuple):
    """A rule as the schema has it. reason, optional_old_self: None if not set."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str | None = None
    field_path: str = ""
    optional_old_self: bool | None = None

    @classmethod
    def of(cls, document: Document) -> ValidationRule:
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
        """The text that identifies the rule in messages about its evaluation."""
        return self.message.strip() or self.rule.strip()

    @property
    def default_message(self) -> str:
        """The message of a violation if messageExpression yields none."""
        return self.message.strip() or f"failed rule: {self.rule.strip()}"


def rules_of(schema: JSONSchema, extensions: Extensions) -> tuple[ValidationRule, ...]:
    return tuple(map(ValidationRule.of, schema.get(extensions.validations) or ()))


class Expression(NamedTuple):
    """A compiled expression. references: the variables and fields that it reads."""

    node: Node
    program: Program
    references: References

    @property
    def uses_old(self) -> bool:
        return OLD_SELF in self.references.fields


class CompilationResult(NamedTuple):
    """A rule with its compiled expressions or errors; a rule without text has neither."""

    rule: ValidationRule
    expression: Expression | None = None
    error: str | None = None
    message: Expression | None = None
    message_error: str | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(each for each in (self.expression, self.message) if each is not None)


class RuleCompiler:
    """Compiles the rules of one schema, whose values are of a type."""

    def __init__(self, self_type: Type) -> None:
        self._type = self_type

    def environment(self, rule: ValidationRule) -> Environment:
        """Returns the environment of a rule, in which old values may be missing only if the rule allows
        it.
        """
        return self._with_optional_old if rule.optional_old_self else self._with_old

    @cached_property
    def _with_old(self) -> Environment:
        return kubernetes_environment({SELF: self._type, OLD_SELF: self._type})

    @cached_property
    def _with_optional_old(self) -> Environment:
        return kubernetes_environment({SELF: self._type, OLD_SELF: types.optional_of(self._type)})

    def compile(self, rule: ValidationRule, versions: ExpressionVersions | None = None) -> CompilationResult:
        """Compile a rule. versions: the features that expressions may use; None: all, since they are
        stored.
        """
        if not rule.rule.strip():
            return CompilationResult(rule)
        environment = self.environment(rule)
        try:
            expression = _compiled(environment, rule.rule, _BOOL, versions)
        except _InvalidExpression as error:
            return CompilationResult(rule, error=str(error))
        if not rule.message_expression:
            return CompilationResult(rule, expression)
        try:
            message = _compiled(environment, rule.message_expression, _STRING, versions)
        except _InvalidExpression as error:
            return CompilationResult(rule, expression, message_error=str(error))
        return CompilationResult(rule, expression, message=message)

    def worst_cost(self, expression: Expression) -> int:
        return estimate(expression.node, self._type).high


class _InvalidExpression(Exception):
    """An expression does not compile; the message is for the client."""


class _ExpectedType(NamedTuple):
    """The type that an expression must have, and the beginning of messages about it."""

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
    environment: Environment, text: str, wanted: _ExpectedType, versions: ExpressionVersions | None
) -> Expression:
    """Returns an expression of the required type. Raises _InvalidExpression."""
    try:
        checked = environment.check(text, None if versions is None else versions.version_of(text))
        if checked.type.kind is not wanted.kind:
            raise _InvalidExpression(wanted.of_type)
        return Expression(checked.node, environment.program(checked), references(checked.node))
    except InvalidExpression as error:
        raise _InvalidExpression(f"{wanted.of_text}: {error}") from None
    except ProgramError as error:
        raise _InvalidExpression(f"{wanted.of_program}: {error}") from None
