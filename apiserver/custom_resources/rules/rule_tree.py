"""The tree of the schemas with rules, which are compiled when the first value needs them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, Protocol

from apiserver.cel.compiler import PATTERN_FUNCTIONS, Program
from apiserver.cel.references import merged
from apiserver.cel.values import CostExceeded, EvaluationError
from apiserver.custom_resources.rules.compilation import (
    OLD_SELF,
    SELF,
    CompilationResult,
    RuleCompiler,
    ValidationRule,
    rules_of,
)
from apiserver.custom_resources.rules.schema_types import SchemaTypes
from apiserver.custom_resources.rules.value_adapters import Adapter, adapter
from apiserver.custom_resources.schemas.json_schema import JSONSchema, all_schemas
from apiserver.custom_resources.schemas.schema_paths import InvalidSchemaPath, find_field
from apiserver.schema.extensions import Extensions

# In the unit of work of `evaluation`: to compile one character or one pattern, and to make one schema's type.
# More schemas than these are too many in any case.
_CHARACTER_WORK: Final = 60
_PATTERN_WORK: Final = 5_000_000
_SCHEMA_WORK: Final = 50
_SCHEMAS_COUNTED: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class CompiledRule:
    """A rule that can be evaluated.

    program: None if there is an `error`, and for a rule without text.
    message: the program of messageExpression.
    field_path: the field that errors name, relative to the value; empty for the value itself.
    """

    rule: ValidationRule
    program: Program | None = None
    error: str | None = None
    uses_old: bool = False
    message: Program | None = None
    message_uses_old: bool = False
    field_path: str = ""


class CompiledRules(NamedTuple):
    """The rules of a schema. adapt: None if values are used unchanged. error: why there are no rules."""

    rules: tuple[CompiledRule, ...] = ()
    adapt: Adapter | None = None
    uses_old: bool = False
    error: str | None = None


class ExpressionTimer(Protocol):
    """Measures how long rules are compiled and evaluated; may be called from several threads.

    since: an earlier result of `now`.
    """

    def now(self) -> float: ...

    def compiled(self, since: float, /) -> None: ...

    def evaluated(self, since: float, /) -> None: ...


class NullExpressionTimer:
    """An `ExpressionTimer` that measures nothing."""

    def now(self) -> float:
        return 0.0

    def compiled(self, since: float, /) -> None:
        pass

    def evaluated(self, since: float, /) -> None:
        pass


NULL_TIMER: Final = NullExpressionTimer()


class RuleTreeBuilder:
    """Builds the nodes of schemas with rules, one for each schema even if it is in several others."""

    def __init__(self, extensions: Extensions, timer: ExpressionTimer = NULL_TIMER) -> None:
        self.extensions, self.types, self.timer = extensions, SchemaTypes(extensions), timer
        # By the schema's identity; the schema is kept so that no other takes it.
        self._found: dict[int, tuple[JSONSchema, RuleNode | None]] = {}

    def build(self, schema: object, name: str, *, is_root: bool = False) -> RuleNode | None:
        """Returns the node of a schema; None if it has no rules in it.

        name: that of its type, which is unique.
        """
        if not isinstance(schema, dict):
            return None
        found = self._found.get(id(schema))
        if found is None:
            node = RuleNode(schema, name, self, is_root=is_root)
            found = self._found[id(schema)] = schema, None if node.is_empty else node
        return found[1]


class RuleNode:
    """A schema with rules, or with such schemas in it, which are its children.

    map_keys: those of a list of type map; else empty.
    """

    __slots__ = (
        "_compiled_rules",
        "_extensions",
        "_is_root",
        "_name",
        "_timer",
        "_types",
        "has_rules",
        "items",
        "kind",
        "map_keys",
        "properties",
        "schema",
        "values",
    )

    def __init__(self, schema: JSONSchema, name: str, builder: RuleTreeBuilder, *, is_root: bool) -> None:
        extensions = builder.extensions
        self.schema, self._name, self._types, self._extensions = schema, name, builder.types, extensions
        self._is_root, self._timer = is_root, builder.timer
        self._compiled_rules: CompiledRules | None = None
        self.kind: str = schema.get("type", "")
        self.has_rules = bool(schema.get(extensions.validations))
        self.properties = tuple(
            (key, child)
            for key, below in (schema.get("properties") or {}).items()
            if (child := builder.build(below, f"{name}.{key}")) is not None
        )
        self.values = builder.build(schema.get("additionalProperties"), f"{name}.@elem")
        self.items = builder.build(schema.get("items"), f"{name}.@idx")
        is_map = schema.get(extensions.list_type) == "map"
        self.map_keys: tuple[str, ...] = tuple(schema.get(extensions.list_map_keys) or ()) if is_map else ()

    @property
    def is_empty(self) -> bool:
        return not (self.has_rules or self.properties or self.values or self.items)

    @property
    def is_compiled(self) -> bool:
        return self._compiled_rules is not None

    def compile_work(self) -> int:
        """The most work that `compiled` takes."""
        rules = rules_of(self.schema, self._extensions)
        texts = [text for rule in rules for text in (rule.rule, rule.message_expression)]
        patterns = sum(len(PATTERN_FUNCTIONS.findall(text)) for text in texts)
        return schema_work(self.schema) + _CHARACTER_WORK * sum(map(len, texts)) + _PATTERN_WORK * patterns

    @property
    def compiled(self) -> CompiledRules:
        if self._compiled_rules is None:
            began = self._timer.now()
            self._compiled_rules = self._compile()
            self._timer.compiled(began)
        return self._compiled_rules

    def _compile(self) -> CompiledRules:
        type_ = self._types.of(self.schema, self._name, is_root=self._is_root)
        if type_ is None:
            return CompiledRules(error="unable to convert structural schema to CEL declarations")
        compiler = RuleCompiler(type_)
        checked = [compiler.compile(rule) for rule in rules_of(self.schema, self._extensions)]
        expressions = [each for rule in checked for each in rule.expressions]
        variables = merged(each.references for each in expressions).fields
        part = merged(variables[name] for name in (SELF, OLD_SELF) if name in variables)
        return CompiledRules(
            tuple(self._prepare(rule) for rule in checked if not _always_holds(rule)),
            adapter(self.schema, part, self._extensions, is_root=self._is_root),
            uses_old=any(each.uses_old for each in expressions),
        )

    def _prepare(self, checked: CompilationResult) -> CompiledRule:
        rule, expression, message = checked.rule, checked.expression, checked.message
        if expression is None:
            return CompiledRule(rule, error=checked.error)
        return CompiledRule(
            rule,
            expression.program,
            uses_old=expression.uses_old,
            message=None if message is None else message.program,
            message_uses_old=message is not None and message.uses_old,
            field_path=_normalised(rule.field_path, self.schema),
        )


def _always_holds(checked: CompilationResult) -> bool:
    """Whether a rule is always true and free, so that no budget would limit its evaluations."""
    expression = checked.expression
    if expression is None or expression.references.fields:
        return False
    try:
        return expression.program({}) == (True, 0)
    except (CostExceeded, EvaluationError):
        return False


def schema_work(schema: JSONSchema) -> int:
    """Returns the work of looking at a schema and all schemas in it."""
    return _SCHEMA_WORK * sum(1 for _ in islice(all_schemas(schema), _SCHEMAS_COUNTED))


def _normalised(path: str, schema: JSONSchema) -> str:
    """Returns `a[b.c]` for `.a['b.c']`; empty for a path that leads nowhere."""
    if not path:
        return ""
    try:
        steps = find_field(path, dict(schema)).steps
    except InvalidSchemaPath:
        return ""
    return "".join(step if step.startswith("[") else f".{step}" for step in steps).removeprefix(".")
