"""Whatever a client sends, the playground refuses it or has an answer."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import orjson
from hypothesis import given
from hypothesis import strategies as st

from apiserver.cel.compatibility_version import GATES, CompatibilityVersion
from apiserver.console.playground.answers import Effort
from apiserver.console.playground.policy_expression import described, evaluate_policy, variables_of
from apiserver.console.playground.question import Kind, question_of
from apiserver.console.playground.rule_expression import evaluate_rule
from apiserver.load.size_class import TakesLong
from apiserver.meta.errors import BadRequest
from apiserver.schema.extensions import Extensions
from tests.unit.console.playground.test_verdicts import FIELDS, Nobody

VERSION: Final = CompatibilityVersion((1, 36), GATES)
SCHEMA: Final = {"type": "object", "properties": {"spec": {"type": "object", "properties": FIELDS}}}
NAMES: Final = st.sampled_from(
    ["metadata", "name", "namespace", "labels", "spec", "requestResource", "group", "userInfo", "n", "l", "m"]
)
JSON: Final[st.SearchStrategy[Any]] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)
EXPRESSIONS: Final = st.sampled_from(
    [
        "object",
        "oldObject",
        "request",
        "params",
        "variables",
        "namespaceObject",
        "authorizer",
        "authorizer.requestResource.check('get').allowed()",
        "object.spec.n + request.name",
        "object.metadata.labels.all(k, object.metadata.labels[k] == k)",
        "request.userInfo.groups.exists(g, g == 'a') || request.userInfo.extra.size() > 0",
        "namespaceObject.metadata.labels['a'] + string(namespaceObject.metadata.creationTimestamp)",
        "variables.a == variables.name",
        "self",
        "self.spec.l.map(x, x * 2)",
        "self == oldSelf",
        "self.spec.m['a'] / self.spec.n",
        "{'a': self}.a",
        "[object, object].map(o, [o, o])",
        "object = 1",
    ]
)
QUESTIONS: Final = st.fixed_dictionaries(
    {"expression": EXPRESSIONS},
    optional={
        "kind": st.sampled_from(["rule", "policy"]) | JSON,
        "object": JSON,
        "oldObject": JSON,
        "params": JSON,
        "request": JSON,
        "namespaceObject": JSON,
        "variables": st.lists(st.fixed_dictionaries({"name": NAMES, "expression": EXPRESSIONS})) | JSON,
        "resource": JSON,
        "path": st.lists(NAMES | st.integers(0, 3)) | JSON,
        "optionalOldSelf": st.booleans() | JSON,
    },
)


@given(QUESTIONS, st.booleans(), st.booleans())
def test_a_question_is_refused_or_answered(
    document: dict[str, Any], is_typed: bool, is_bounded: bool
) -> None:
    with suppress(BadRequest, TakesLong):
        question = question_of(document)
        if question.kind is Kind.RULE:
            schema = SCHEMA if is_typed else None
            answer = evaluate_rule(question, schema, Extensions("kubernetes"), VERSION, Effort(is_bounded))
        else:
            request = {**described(question, None, {"username": "alice"}), **(question.request or {})}
            known = variables_of(question, request, Nobody())
            answer = evaluate_policy(question, known, None, VERSION, Effort(is_bounded))
        assert orjson.dumps(answer.body())
