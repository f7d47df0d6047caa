"""The schemas of a definition that have rules, and what their rules become when the first value comes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from apiserver.apiextensions.schema_paths import InvalidPath, find_field
from apiserver.apiextensions.schema_rules.compilation import (
    OLD_SELF,
    SELF,
    Checker,
    CompilationResult,
    Rule,
    rules_of,
)
from apiserver.apiextensions.schema_rules.references import merged
from apiserver.apiextensions.schema_rules.schema_types import SchemaTypes
from apiserver.apiextensions.schema_rules.value_adapters import Adapter, adapter
from apiserver.cel.compiler import Program
from apiserver.cel.values import CostExceeded, EvaluationError
from apiserver.schema.custom.json_schema import JSONSchema, everywhere

# In the unit of `evaluation`: what it takes to compile one character, and to make one schema's type. More
# schemas than these are too much in any case.
_CHARACTER_WORK: Final = 60
_SCHEMA_WORK: Final = 50
_SCHEMAS_COUNTED: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class CompiledRule:
    """A rule that can be evaluated.

    program: None where there is an `error`, and for a rule without text.
    message: of messageExpression.
    field_path: below the value that the rule is about, as errors have it; empty if it is about all of it.
    """

    rule: Rule
    program: Program | None = None
    error: str | None = None
    uses_old: bool = False
    message: Program | None = None
    message_uses_old: bool = False
    field_path: str = ""


class CompiledRules(NamedTuple):
    """adapt: None where values are used as they are. error: why there are no rules."""

    rules: tuple[CompiledRule, ...] = ()
    adapt: Adapter | None = None
    uses_old: bool = False
    error: str | None = None


class Finder:
    """Finds what has rules. A schema that is in several others is looked at once."""

    def __init__(self, vendor: str) -> None:
        self.vendor, self.types = vendor, SchemaTypes(vendor)
        # By the schema's identity; the schema is kept so that no other takes it.
        self._found: dict[int, tuple[JSONSchema, Node | None]] = {}

    def find(self, schema: object, name: str, *, is_root: bool = False) -> Node | None:
        """The rules of a schema and below; None if there are none, or it is no schema.

        name: of its type, which tells it from all others.
        """
        if not isinstance(schema, dict):
            return None
        found = self._found.get(id(schema))
        if found is None:
            node = Node(schema, name, self, is_root=is_root)
            found = self._found[id(schema)] = schema, None if node.is_empty else node
        return found[1]


class Node:
    """A schema with rules, or with such schemas below it. It leads only to these.

    map_keys: of a list whose items are told apart by some fields.
    """

    __slots__ = ("_is_root", "_name", "_ready", "_types", "_vendor", "has_rules", "items", "kind", "map_keys",
                 "properties", "schema", "values")  # fmt: skip

    def __init__(self, schema: JSONSchema, name: str, finder: Finder, *, is_root: bool) -> None:
        vendor = finder.vendor
        self.schema, self._name, self._types, self._vendor = schema, name, finder.types, vendor
        self._is_root = is_root
        self._ready: CompiledRules | None = None
        self.kind: str = schema.get("type", "")
        self.has_rules = bool(schema.get(f"x-{vendor}-validations"))
        self.properties = tuple(
            (key, child)
            for key, below in (schema.get("properties") or {}).items()
            if (child := finder.find(below, f"{name}.{key}")) is not None
        )
        self.values = finder.find(schema.get("additionalProperties"), f"{name}.@elem")
        self.items = finder.find(schema.get("items"), f"{name}.@idx")
        is_map = schema.get(f"x-{vendor}-list-type") == "map"
        self.map_keys: tuple[str, ...] = tuple(schema[f"x-{vendor}-list-map-keys"]) if is_map else ()

    @property
    def is_empty(self) -> bool:
        return not (self.has_rules or self.properties or self.values or self.items)

    @property
    def is_ready(self) -> bool:
        return self._ready is not None

    def compile_work(self) -> int:
        """How long it takes to get `ready`, at most."""
        rules = rules_of(self.schema, self._vendor)
        characters = sum(len(rule.rule) + len(rule.message_expression) for rule in rules)
        return schema_work(self.schema) + _CHARACTER_WORK * characters

    @property
    def ready(self) -> CompiledRules:
        if self._ready is None:
            self._ready = self._compile()
        return self._ready

    def _compile(self) -> CompiledRules:
        type_ = self._types.of(self.schema, self._name, is_root=self._is_root)
        if type_ is None:
            return CompiledRules(error="unable to convert structural schema to CEL declarations")
        checker = Checker(type_)
        checked = [checker.check(rule, stored=None) for rule in rules_of(self.schema, self._vendor)]
        expressions = [each for rule in checked for each in rule.expressions]
        variables = merged(each.reads for each in expressions).fields
        part = merged(variables[name] for name in (SELF, OLD_SELF) if name in variables)
        return CompiledRules(
            tuple(self._prepare(rule) for rule in checked if not _always_holds(rule)),
            adapter(self.schema, part, self._vendor, is_root=self._is_root),
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
    """Whether a rule is true of anything, and costs nothing: no budget would limit how often it is."""
    expression = checked.expression
    if expression is None or expression.reads.fields:
        return False
    try:
        return expression.program({}) == (True, 0)
    except (CostExceeded, EvaluationError):
        return False


def schema_work(schema: JSONSchema) -> int:
    """How long it takes to look at a schema and all in it."""
    return _SCHEMA_WORK * sum(1 for _ in islice(everywhere(schema), _SCHEMAS_COUNTED))


def _normalised(path: str, schema: JSONSchema) -> str:
    """`.a['b.c']` -> `a[b.c]`; empty for one that leads nowhere."""
    if not path:
        return ""
    try:
        steps = find_field(path, dict(schema)).steps
    except InvalidPath:
        return ""
    return "".join(step if step.startswith("[") else f".{step}" for step in steps).removeprefix(".")
