"""The playground agrees with what it stands for: the rules of definitions, and admission policies."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from apiserver.admission.policies.budget import COST_BUDGET, Budget
from apiserver.admission.policies.evaluation import evaluate
from apiserver.admission.policies.policy import ValidatingPolicy
from apiserver.cel.compatibility_version import GATES, CompatibilityVersion
from apiserver.cel.library.authorizer import CheckAttributes, DecisionValue
from apiserver.console.playground.answers import Answer, Effort
from apiserver.console.playground.policy_expression import evaluate_policy, variables_of
from apiserver.console.playground.question import Kind, Question
from apiserver.console.playground.rule_expression import evaluate_rule
from apiserver.custom_resources.rules.compilation import SELF
from apiserver.custom_resources.rules.evaluation import OBJECT_COST_MAX, Evaluation, ValueChange
from apiserver.custom_resources.rules.rule_tree import RuleTreeBuilder
from apiserver.schema.extensions import Extensions

VERSION: Final = CompatibilityVersion((1, 36), GATES)
EXTENSIONS: Final = Extensions("kubernetes")
FIELDS: Final = {
    "n": {"type": "integer"},
    "d": {"type": "number"},
    "s": {"type": "string", "maxLength": 5},
    "t": {"type": "string", "format": "date-time"},
    "b": {"type": "boolean"},
    "l": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
    "e": {"type": "array", "maxItems": 5, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer"}},
}
NUMBERS: Final = st.integers(-3, 3)
TEXTS: Final = st.text("ab", max_size=3)
OBJECTS: Final = st.fixed_dictionaries(
    {},
    optional={
        "n": NUMBERS,
        "d": NUMBERS | st.sampled_from([0.5, -1.5]),
        "s": TEXTS,
        "t": st.sampled_from(["2026-01-01T00:00:00Z", "2025-06-30T12:00:00+02:00"]),
        "b": st.booleans(),
        "l": st.lists(NUMBERS, max_size=4),
        "e": st.lists(TEXTS, max_size=4, unique=True),
        "m": st.dictionaries(st.sampled_from("ab"), NUMBERS),
    },
)
# {v}: the value, {w}: the old one, {k}: a number. Some of them fail for some objects.
ATOMS: Final = (
    "{v}.n > {k}",
    "10 / {v}.n > {k}",
    "has({v}.n) && {v}.n + {k} != 0",
    "{v}.s.startsWith('a')",
    "{v}.s.matches('^a+b*$')",
    "size({v}.s) + size({v}.l) < {k}",
    "(has({v}.b) ? {v}.b == true : {k} > 0)",
    "{v}.l.all(x, x > {k})",
    "{v}.l.exists_one(x, x == {k})",
    "{v}.l.map(x, x * {k}).exists(x, x > 3)",
    "{k} in {v}.l",
    "{v}.m['a'] == {k}",
    "{v}.m.all(key, {v}.m[key] > {k})",
    "{v}.?n.orValue({k}) > 0",
    "{v}.n >= {w}.n",
    "{v}.l == {w}.l",
    "has({w}.s) && {v}.s != {w}.s",
)
# What differs between the values of schemas and those of documents alone.
TYPED_ATOMS: Final = (
    "{v}.d / 2.0 > {k}.0",
    "{v}.t.getFullYear() > 2025",
    "{v}.e == ['a', 'b']",
    "{v}.e == {w}.e",
)


def expressions(*atoms: str) -> st.SearchStrategy[str]:
    """Expressions with `{v}` and `{w}` where the value and the old one stand."""
    leaves = st.tuples(st.sampled_from(atoms), NUMBERS).map(lambda pair: pair[0].replace("{k}", str(pair[1])))
    return st.recursive(
        leaves,
        lambda inner: (
            st.tuples(inner, st.sampled_from([" && ", " || "]), inner).map(lambda it: f"({''.join(it)})")
            | inner.map(lambda it: f"!({it})")
            | st.tuples(inner, inner, inner).map(lambda it: f"({it[0]} ? {it[1]} : {it[2]})")
        ),
        max_leaves=4,
    )


def in_place(text: str, value: str, old: str) -> str:
    return text.replace("{v}", value).replace("{w}", old)


@given(expressions(*ATOMS, *TYPED_ATOMS), OBJECTS, st.none() | OBJECTS, st.booleans())
def test_a_rule_has_the_verdict_and_the_cost_that_it_has_in_a_definition(
    text: str, new: dict[str, Any], old: dict[str, Any] | None, is_in_list: bool
) -> None:
    expression = in_place(text, "self", "oldSelf")
    ruled = {"type": "object", "properties": FIELDS, "x-kubernetes-validations": [{"rule": expression}]}
    path: tuple[str | int, ...] = ("spec",)
    spec, old_spec = new, old
    schema: dict[str, Any] = ruled
    if is_in_list:  # in one of type map, whose items are correlated by `s`
        path = ("spec", 0)
        schema = {
            "type": "array",
            "items": ruled,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["s"],
        }
        spec, old_spec = [new], None if old is None else [old]  # type: ignore[assignment]
    root = {"type": "object", "properties": {"spec": schema}}
    document = {"spec": spec}
    old_document = None if old_spec is None else {"spec": old_spec}
    question = Question(Kind.RULE, expression, new=document, old=old_document, path=path)
    answer = evaluate_rule(question, root, EXTENSIONS, VERSION, Effort(is_bounded=False))

    node = RuleTreeBuilder(EXTENSIONS).build(root, SELF, is_root=True)
    assert node is not None
    evaluation = Evaluation()
    evaluation.evaluate(node, document, old_document, None, ValueChange(None, None))
    assert answer.issues == ()
    if answer.cost is None:
        assert "the rule is not evaluated" in (answer.error or "")
        assert not evaluation.errors
        return
    assert answer.cost == OBJECT_COST_MAX - evaluation.budget
    assert_agrees(answer, [str(error) for error in evaluation.errors])


@given(expressions(*ATOMS), expressions(*ATOMS), OBJECTS, st.none() | OBJECTS)
def test_a_policy_has_the_verdict_and_the_cost_that_it_has_in_admission(
    variable: str, text: str, new: dict[str, Any], old: dict[str, Any] | None
) -> None:
    variable = in_place(variable, "object.spec", "oldObject.spec")
    expression = f"({in_place(text, 'object.spec', 'oldObject.spec')}) && (params.x > 0 || variables.a)"
    document = {"metadata": {"name": "a"}, "spec": new}
    old_document = None if old is None else {"metadata": {"name": "a"}, "spec": old}
    question = Question(
        Kind.POLICY,
        expression,
        new=document,
        old=old_document,
        has_params=True,
        params={"x": len(new) % 2},
        variables=[("a", variable)],
    )
    known = variables_of(question, {"operation": "CREATE"}, Nobody())
    answer = evaluate_policy(question, known, None, VERSION, Effort(is_bounded=False))

    policy = ValidatingPolicy.of(
        {
            "metadata": {"name": "policy"},
            "spec": {
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "variables": [{"name": "a", "expression": variable}],
                "validations": [{"expression": expression}],
            },
        }
    )
    budget = Budget(COST_BUDGET, None)
    denials = evaluate(policy, known, question.params, budget).denials
    assert answer.issues == ()
    assert answer.cost == COST_BUDGET - budget.left
    assert_agrees(answer, [denial.message for denial in denials])
    assert any(denial.is_error for denial in denials) == (answer.error is not None)


def assert_agrees(answer: Answer, errors: list[str]) -> None:
    """A rule that is true has no error, one that is false has one, and one that fails has its text."""
    if answer.error is not None:
        assert len(errors) == 1
        assert answer.error in errors[0] or "no such overload" in answer.error
    else:
        assert answer.result is (not errors)


class Nobody:
    """An authorizer that allows nothing."""

    def decide(self, attributes: CheckAttributes) -> DecisionValue:
        return DecisionValue(is_allowed=False)
