"""Which requests a rule of a role allows. Rows O04, O05.

Source: k8s.io/kubernetes, pkg/apis/rbac/v1/evaluation_helpers.go.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.auth.authz.attributes import Attributes
from apiserver.auth.authz.rbac.rules import PolicyRule, parse_rules
from apiserver.meta.vocabulary import UserInfo

BOB: Final = UserInfo("bob")


def about(
    verb: str, resource: str, group: str = "", name: str = "", subresource: str = "", namespace: str = "ns"
) -> Attributes:
    return Attributes(BOB, verb, True, "", group, resource, subresource, namespace, name)


def path(verb: str, path: str) -> Attributes:
    return Attributes(BOB, verb, False, path)


PODS: Final = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
RULES: Final[dict[str, tuple[dict[str, Any], Attributes, bool]]] = {
    "what it says": (PODS, about("get", "pods"), True),
    "whatever the name": (PODS, about("get", "pods", name="a"), True),
    "another verb": (PODS, about("delete", "pods"), False),
    "another resource": (PODS, about("get", "secrets"), False),
    "another group": (PODS, about("get", "pods", "metrics.k8s.io"), False),
    "a subresource is another resource": (PODS, about("get", "pods", subresource="log"), False),
    "case counts": (PODS, about("GET", "pods"), False),
    "a path is no resource": (PODS, path("get", "pods"), False),
    "any verb": ({**PODS, "verbs": ["*"]}, about("escalate", "pods"), True),
    "any group": ({**PODS, "apiGroups": ["*"]}, about("get", "pods", "x.io"), True),
    "no group is none": ({**PODS, "apiGroups": []}, about("get", "pods"), False),
    "any resource": ({**PODS, "resources": ["*"]}, about("get", "secrets"), True),
    "any resource, its subresources, too": (
        {**PODS, "resources": ["*"]},
        about("get", "pods", subresource="log"),
        True,
    ),
    "a subresource": ({**PODS, "resources": ["pods/log"]}, about("get", "pods", subresource="log"), True),
    "a subresource is not the resource": ({**PODS, "resources": ["pods/log"]}, about("get", "pods"), False),
    "a subresource of whatever has it": (
        {**PODS, "resources": ["*/scale"]},
        about("get", "deployments", subresource="scale"),
        True,
    ),
    "but not another": (
        {**PODS, "resources": ["*/scale"]},
        about("get", "deployments", subresource="status"),
        False,
    ),
    "nor the resource itself": ({**PODS, "resources": ["*/scale"]}, about("get", "deployments"), False),
    "all subresources of one cannot be said": (
        {**PODS, "resources": ["pods/*"]},
        about("get", "pods", subresource="log"),
        False,
    ),
    "a name": ({**PODS, "resourceNames": ["a", "b"]}, about("get", "pods", name="b"), True),
    "another name": ({**PODS, "resourceNames": ["a"]}, about("get", "pods", name="b"), False),
    "names are not all": ({**PODS, "resourceNames": ["a"]}, about("list", "pods"), False),
    "a star is no pattern for names": (
        {**PODS, "resourceNames": ["*"]},
        about("get", "pods", name="a"),
        False,
    ),
    "a path": ({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, path("get", "/metrics"), True),
    "a path, another verb": (
        {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
        path("post", "/metrics"),
        False,
    ),
    "a path below": (
        {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
        path("get", "/metrics/slis"),
        False,
    ),
    "all below": ({"verbs": ["get"], "nonResourceURLs": ["/metrics/*"]}, path("get", "/metrics/slis"), True),
    "all below is not the path itself": (
        {"verbs": ["get"], "nonResourceURLs": ["/metrics/*"]},
        path("get", "/metrics"),
        False,
    ),
    "all that begins so": (
        {"verbs": ["get"], "nonResourceURLs": ["/metrics*"]},
        path("get", "/metricsx"),
        True,
    ),
    "any path": ({"verbs": ["get"], "nonResourceURLs": ["*"]}, path("get", "/x"), True),
    "a star in the middle is a star": (
        {"verbs": ["get"], "nonResourceURLs": ["/a/*/c"]},
        path("get", "/a/b/c"),
        False,
    ),
    "nothing at all": ({}, about("get", "pods"), False),
    "nothing at all, a path": ({}, path("get", ""), False),
}


@pytest.mark.parametrize(("rule", "attributes", "is_allowed"), RULES.values(), ids=RULES)
def test_rules(rule: dict[str, Any], attributes: Attributes, is_allowed: bool) -> None:
    assert PolicyRule.of(rule).allows(attributes) is is_allowed


@pytest.mark.parametrize(
    "rule",
    [PODS, {"verbs": ["get"], "nonResourceURLs": ["/x"]}, {}],
    ids=["of resources", "of paths", "of nothing"],
)
def test_a_rule_is_written_as_it_was_read(rule: dict[str, Any]) -> None:
    assert PolicyRule.of(rule).document() == rule


@pytest.mark.parametrize("role", [{}, {"rules": None}, {"rules": []}], ids=["absent", "null", "empty"])
def test_a_role_without_rules(role: dict[str, Any]) -> None:
    assert parse_rules(role) == ()
