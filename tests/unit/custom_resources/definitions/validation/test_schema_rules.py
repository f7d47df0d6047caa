"""Which rules a definition may have. Rows R21, R25, R31, R35, R37."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import pytest

from apiserver.cel.compatibility_version import CompatibilityVersion, ExpressionVersions
from apiserver.custom_resources.definitions.validation.schema_rules import check_rules, expressions_of
from apiserver.schema.extensions import Extensions
from tests.support.compatibility import DEFAULT_COMPATIBILITY
from tests.unit.custom_resources.rules.schemas import INT, Schema, ruled

PATH: Final = "spec.validation.openAPIV3Schema"
FIELD: Final = f"{PATH}.properties[spec].x-kubernetes-validations[0]"
STRING: Final = {"type": "string", "maxLength": 10}
NEW: Final = ExpressionVersions(DEFAULT_COMPATIBILITY)


def with_spec(spec: Schema) -> Schema:
    return {"type": "object", "properties": {"spec": spec}}


def check(schema: Schema, versions: ExpressionVersions = NEW, **options: Any) -> list[str]:
    found = check_rules(schema, path=PATH, extensions=Extensions("kubernetes"), versions=versions, **options)
    return list(map(str, found))


def refusal(detail: str, rule: str, field: str = "rule", message_expression: str = "") -> str:
    """An error with the rule as Go's JSON."""
    shown = (
        f'{{"Rule":"{rule}","Message":"","MessageExpression":"{message_expression}","Reason":null,'
        '"FieldPath":"","OptionalOldSelf":null}'
    )
    return f"{FIELD}.{field}: Invalid value: {shown}: {detail}"


SPEC: Final = {"type": "object", "properties": {"n": INT, "s": STRING}}
ACCEPTED: Mapping[str, str | dict[str, Any]] = {
    "a condition": "self.n > 0",
    "a transition": "self.n >= oldSelf.n",
    "an old value that may be missing": {
        "rule": "!oldSelf.hasValue() || oldSelf.value().n < self.n",
        "optionalOldSelf": True,
    },
    "a message that is worked out": {"rule": "self.n > 0", "messageExpression": "'not ' + self.s"},
    "an old value that is a constant": "oldSelf.n == 1 || true",
    "no rule": "",
}


@pytest.mark.parametrize("rule", ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_accepted(rule: str | dict[str, Any]) -> None:
    assert check(with_spec(ruled(SPEC, rule))) == []


UNKNOWN_FIELD: Final = "compilation failed: ERROR: <input>:1:5: undefined field 'x'\n | self.x\n | ....^"
REFUSED: Mapping[str, tuple[str | dict[str, Any], str]] = {
    "an unknown field": ("self.x", refusal(UNKNOWN_FIELD, "self.x")),
    "types that do not go together": (
        "self.n == true",
        refusal(
            "compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied to"
            " '(int, bool)'\n | self.n == true\n | .......^",
            "self.n == true",
        ),
    ),
    "what is no condition": ("self.n + 1", refusal("cel expression must evaluate to a bool", "self.n + 1")),
    "a rule's signs are escaped as Go does": (
        "self.n < 1 && 2 > 1 & 1",
        refusal("compilation failed: ERROR:", r"self.n \u003c 1 \u0026\u0026 2 \u003e 1 \u0026 1"),
    ),
    "a message that is no text": (
        {"rule": "true", "messageExpression": "1"},
        refusal("messageExpression must evaluate to a string", "true", "messageExpression", "1"),
    ),
    "a message that does not compile": (
        {"rule": "true", "messageExpression": "self.x"},
        refusal(f"messageExpression {UNKNOWN_FIELD}", "true", "messageExpression", "self.x"),
    ),
    "optionalOldSelf without oldSelf": (
        {"rule": "true", "optionalOldSelf": False},
        f"{FIELD}.optionalOldSelf: Invalid value: false: may not be set if oldSelf is not used in rule",
    ),
    "an optional old value as if it was there": (
        {"rule": "oldSelf == self", "optionalOldSelf": True},
        f"{FIELD}.rule: Invalid value: ",
    ),
}


@pytest.mark.parametrize(("rule", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(rule: str | dict[str, Any], expected: str) -> None:
    found = check(with_spec(ruled(SPEC, rule)))
    assert found
    assert found[0].startswith(expected)


def test_rules_need_a_type() -> None:
    anything = ruled({"x-kubernetes-preserve-unknown-fields": True}, "true")
    field = f"{PATH}.properties[spec].x-kubernetes-validations"
    text = "failed to construct type information for x-kubernetes-validations rules"
    cause = "unable to convert structural schema to CEL declarations"
    assert check(with_spec(anything)) == [f"{field}: Internal error: internal error: {text}: {cause}"]


def test_errors_of_inner_schemas_come_first() -> None:
    inner = ruled(INT, "bad1")
    found = check(with_spec(ruled({"type": "object", "properties": {"n": inner}}, "bad2")))
    assert [text.partition(":")[0].removeprefix(PATH) for text in found] == [
        ".properties[spec].properties[n].x-kubernetes-validations[0].rule",
        ".properties[spec].x-kubernetes-validations[0].rule",
    ]


TRANSITION: Final = ruled(INT, "self == oldSelf")
OF_KEYS: Final = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
# What is around the value, and the path of what cannot be correlated.
CORRELATED: Mapping[str, tuple[Schema, str | None]] = {
    "a field": ({"type": "object", "properties": {"v": TRANSITION}}, None),
    "a map's values": ({"type": "object", "additionalProperties": TRANSITION}, None),
    "a map list's items": (
        {
            "type": "array",
            "maxItems": 3,
            **OF_KEYS,
            "items": {"type": "object", "properties": {"k": STRING, "v": TRANSITION}},
        },
        None,
    ),
    "a list's items": ({"type": "array", "maxItems": 3, "items": TRANSITION}, ".properties[spec]"),
    "a set's items": (
        {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set", "items": TRANSITION},
        ".properties[spec]",
    ),
    "the error names the outermost list": (
        {
            "type": "object",
            "properties": {
                "l": {
                    "type": "array",
                    "maxItems": 3,
                    "items": {"type": "array", "maxItems": 3, "items": TRANSITION},
                }
            },
        },
        ".properties[spec].properties[l]",
    ),
}


@pytest.mark.parametrize(("spec", "path"), CORRELATED.values(), ids=CORRELATED)
def test_where_old_values_can_be_had(spec: Schema, path: str | None) -> None:
    found = check(with_spec(spec))
    if path is None:
        assert found == []
    else:
        assert found[0].endswith(
            'Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the'
            f" schema within {PATH}{path}"
        )


# ---- costs


def too_dear(what: str, factor: str) -> str:
    return (
        f"Forbidden: {what} exceeds budget by factor of {factor} (try simplifying the rule, or adding"
        " maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def strings(count: int, length: int = 16) -> Schema:
    return {"type": "array", "maxItems": count, "items": {"type": "string", "maxLength": length}}


# 11 for each item and 2 once, as Kubernetes 1.36 counts them.
CONTAINS: Final = "self.all(x, x.contains('gpu'))"
FACTORS: Mapping[str, tuple[int, str | None]] = {
    "just within": (909_090, None),
    "just above": (909_091, "1.000000x"),
    "somewhat above": (1_000_000, "1.100000x"),
    "above": (1_800_000, "2.0x"),
    "far above": (80_000_000, "88.0x"),
}


@pytest.mark.parametrize(("count", "factor"), FACTORS.values(), ids=FACTORS)
def test_what_a_rule_may_cost(count: int, factor: str | None) -> None:
    found = check(with_spec(ruled(strings(count), CONTAINS)))
    assert found[:1] == (
        [] if factor is None else [f"{FIELD}.rule: {too_dear('estimated rule cost', factor)}"]
    )


def test_a_rule_costs_for_each_value_that_it_is_evaluated_for() -> None:
    def found(outer: Schema) -> list[str]:
        items = ruled(strings(1_000), CONTAINS)
        return check(with_spec({"type": "array", "items": items, **outer}))

    assert found({"maxItems": 900}) == []
    assert "factor of 1.100" in found({"maxItems": 1_000})[0]
    # Without a limit there are as many as a request can hold: 3 MiB of `[],`.
    assert "factor of more than 100x" in found({})[0]


def test_a_field_adds_nothing_to_how_often_a_rule_is_evaluated() -> None:
    spec = {"type": "object", "properties": {"l": ruled(strings(900_000), CONTAINS)}}
    assert check(with_spec(spec)) == []


def test_a_message_is_worked_out_once() -> None:
    dear = {"rule": "true", "messageExpression": "string(self.all(x, self.all(y, x == y)))"}
    found = check(with_spec(ruled(strings(10_000), dear)))
    assert found[0].startswith(
        f"{FIELD}.messageExpression: Forbidden: estimated messageExpression cost exceeds"
    )


def test_what_all_rules_may_cost_together() -> None:
    counts = (9, 9, 9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 5)
    fields = {f"p{index}": ruled(strings(count * 100_000), CONTAINS) for index, count in enumerate(counts)}
    assert check(with_spec({"type": "object", "properties": dict(list(fields.items())[:10])})) == []
    *contributions, total = check(with_spec({"type": "object", "properties": fields}))
    assert [text.partition(".x-")[0].removeprefix(f"{PATH}.properties[spec].") for text in contributions] == [
        f"properties[p{index}]" for index in range(4)
    ]
    text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    assert all(each.endswith(f".rule: Forbidden: {text}") for each in contributions)
    what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    assert total == f"{PATH}: {too_dear(what, '1.177000x')}"


# ---- updates


def test_an_unchanged_schema_may_cost_as_much_as_before() -> None:
    dear = with_spec(ruled(strings(1_000_000), CONTAINS))
    assert check(dear, old_schema=dear) == []
    assert check(dear, old_schema=with_spec(strings(1))) != []


UNCLEAN: Final = f"{PATH}.properties[spec]"


def test_rules_are_not_looked_at_where_something_else_is_wrong() -> None:
    schema = with_spec(ruled({"type": "object", "properties": {"n": ruled(INT, "bad1")}}, "bad2"))
    found = check(schema, invalid_paths={PATH, UNCLEAN})
    assert [text.partition(":")[0].removeprefix(UNCLEAN) for text in found] == [
        ".properties[n].x-kubernetes-validations[0].rule"
    ]


def test_which_expressions_are_stored() -> None:
    items = ruled(INT, {"rule": "true", "messageExpression": "'m'"})
    schema = with_spec(ruled({"type": "array", "items": items}, "false"))
    assert sorted(expressions_of(schema, Extensions("kubernetes"))) == ["'m'", "false", "true"]


# ---- hostile definitions


def test_too_many_rules_are_refused_at_once() -> None:
    started = time.process_time()
    found = check(with_spec(ruled(SPEC, *["self.n > 0"] * 10_000)))
    assert found == [f"{PATH}: Forbidden: must not have more than 2000 validation rules, but has 10000"]
    assert time.process_time() - started < 2


def test_too_much_text_is_refused_at_once() -> None:
    found = check(with_spec(ruled(SPEC, *["self.n > 0 || " * 3_000 + "true"] * 3)))
    assert found[0].startswith(
        f"{PATH}: Forbidden: validation rules must not have more than 100000 characters"
    )


HOSTILE: Mapping[str, str] = {
    "deep brackets": "(" * 20_000 + "1" + ")" * 20_000,
    "a long sum": "+".join(["1"] * 40_000),
    "a long chain": "self" + ".x" * 40_000,
    "a huge literal": f"self.s == '{'a' * 99_000}'",
    "a huge list": f"self.n in [{','.join(['1'] * 30_000)}]",
    "loops in loops": "[1].all(a, " * 200 + "true" + ")" * 200,
    "a huge number": f"self.n == {'9' * 5_000}",
    "not: not: not": "!" * 50_000 + "true",
}


@pytest.mark.parametrize("rule", HOSTILE.values(), ids=HOSTILE)
def test_hostile_expressions_are_looked_at_in_bounded_time(rule: str) -> None:
    started = time.process_time()
    check(with_spec(ruled(SPEC, rule)))
    assert time.process_time() - started < 5


# What new rules need, and the release before the one that has brought it.
VERSIONED: Final = {
    "reserved words as names": ("self.namespace == ''", 30),
    "a library": ("isSemver(self.s)", 32),
}


@pytest.mark.parametrize(("rule", "minor"), VERSIONED.values(), ids=VERSIONED)
def test_new_rules_may_use_what_the_compatibility_version_has(rule: str, minor: int) -> None:
    """Row R20. Stored ones may use everything."""
    properties = {"n": INT, "s": STRING, "namespace": STRING}
    schema = with_spec(ruled({"type": "object", "properties": properties}, rule))
    for release, stored, is_refused in (
        (minor, set(), True),
        (minor + 1, set(), False),
        (minor, {rule}, False),
    ):
        version = CompatibilityVersion((1, release), frozenset())
        found = check(schema, ExpressionVersions(version, frozenset(stored)))
        assert bool(found) is is_refused, found
    for always in ("self.__namespace__ == ''", "self.n >= oldSelf.n"):
        rules = with_spec(ruled({"type": "object", "properties": properties}, always))
        assert check(rules, ExpressionVersions(CompatibilityVersion((1, 15), frozenset()))) == []
