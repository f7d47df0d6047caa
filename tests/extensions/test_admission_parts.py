"""The names of resources that functions take, and the checks of what functions return."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from apiserver.admission.extensions import answers
from apiserver.admission.extensions.answers import FunctionAnswer
from apiserver.admission.extensions.function_rules import rule_of
from apiserver.admission.responses import InvalidAnswer
from apiserver.extensions.resource_names import ResourceName
from apiserver.meta.vocabulary import GroupVersion
from tests.support.in_process import TABLE, resource

# What the rule has of resources, groups and versions, where the built-in types are served.
RULES: Final[dict[str, tuple[tuple[str, str], str, str]]] = {
    "pods": (("pods", ""), "", "*"),
    "pods/status": (("pods", "status"), "", "*"),
    "pods.v1.": (("pods", ""), "", "v1"),
    "deployments": (("deployments", ""), "apps", "*"),
    "deployments.apps": (("deployments", ""), "apps", "*"),
    "deployments.v1.apps": (("deployments", ""), "apps", "v1"),
    "deployments.apps/scale": (("deployments", "scale"), "apps", "*"),
    # Of the core group, and of events.k8s.io.
    "events": (("events", ""), "", "*"),
    "events.v1.events.k8s.io": (("events", ""), "events.k8s.io", "v1"),
    # They are not served.
    "orders": (("orders", ""), "", "*"),
    "orders.v1.shop.example.com": (("orders", ""), "v1.shop.example.com", "*"),
    "*": (("*", ""), "*", "*"),
    "*.apps": (("*", ""), "apps", "*"),
    "*.v1.apps": (("*", ""), "apps", "v1"),
    "events.*": (("events", ""), "*", "*"),
    "*/*": (("*", "*"), "*", "*"),
}
OPERATIONS: Final = frozenset({"CREATE"})


@pytest.mark.parametrize("text", RULES)
def test_the_rule_of_a_resource(text: str) -> None:
    resource, group, version = RULES[text]
    rule = rule_of(ResourceName.of(text), OPERATIONS, TABLE)
    assert rule.resources == {resource}
    assert (*rule.groups, *rule.versions) == (group, version)
    assert rule.operations == OPERATIONS


@pytest.mark.parametrize("text", RULES)
def test_what_a_rule_matches_is_matched_whatever_is_served(text: str) -> None:
    """So the chain may ask for all times whether a function handles a kind of write."""
    name = ResourceName.of(text)
    rule, widest = (rule_of(name, OPERATIONS, table) for table in (TABLE, None))
    for each in TABLE.resources:
        for subresource in ("", *each.subresources):
            write = *each.group_resource, subresource, "CREATE"
            assert widest.concerns(*write) or not rule.concerns(*write)


def test_the_version_of_a_custom_resource_may_have_any_name() -> None:
    table = TABLE.changed(
        (), [replace(resource("roles"), group_version=GroupVersion("example.com", "stable"))]
    )
    rule = rule_of(ResourceName.of("roles.stable.example.com"), OPERATIONS, table)
    assert (*rule.groups, *rule.versions) == ("example.com", "stable")


ANSWERS: Final[dict[str, tuple[dict[str, Any], FunctionAnswer]]] = {
    "nothing": ({}, FunctionAnswer()),
    "an object": ({"object": {"a": 1}}, FunctionAnswer({"a": 1})),
    "a refusal": (
        {"denied": {"message": "m", "code": 403}},
        FunctionAnswer(None, {"message": "m", "code": 403}),
    ),
    "a refusal without a reason": ({"denied": {}}, FunctionAnswer(None, {})),
    "texts": (
        {"warnings": ["a", ""], "auditAnnotations": {"a": "b"}},
        FunctionAnswer(None, None, ["a"], {"a": "b"}),
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_valid_results(case: str) -> None:
    result, answer = ANSWERS[case]
    assert answers.read(result) == answer


INVALID: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "an object": ({"object": [1]}, "response.object is not an object"),
    "a refusal": ({"denied": "no"}, "response.denied is not an object"),
    "the message of a refusal": ({"denied": {"message": 1}}, "response.denied: "),
    "the code of a refusal": ({"denied": {"code": "403"}}, "response.denied: "),
    "the causes of a refusal": ({"denied": {"details": {"causes": [1]}}}, "response.denied: "),
    "a warning": ({"warnings": [1]}, "response.warnings is not a list of strings"),
    "audit annotations": (
        {"auditAnnotations": {"a": 1}},
        "response.auditAnnotations is not an object whose values are strings",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_results_of_wrong_types(case: str) -> None:
    result, message = INVALID[case]
    with pytest.raises(InvalidAnswer) as invalid:
        answers.read(result)
    assert str(invalid.value).startswith(message)
