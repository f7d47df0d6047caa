"""Which requests rules match: k8s.io/apiserver, pkg/admission/plugin/webhook/predicates/rules."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.admission.rules import MatchAttributes, RuleWithOperations

PODS: Final = MatchAttributes("", "v1", "pods", "", "CREATE", "default", "a")
STATUS: Final = PODS._replace(subresource="status", operation="UPDATE")
NODES: Final = MatchAttributes("", "v1", "nodes", "", "CREATE", "", "n")
SCALE: Final = MatchAttributes("apps", "v1", "deployments", "scale", "UPDATE", "default", "d")


def rule(**fields: Any) -> RuleWithOperations:
    return RuleWithOperations.of(
        {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], **fields}
    )


CASES: dict[str, tuple[dict[str, Any], MatchAttributes, bool]] = {
    "everything is every resource": ({}, PODS, True),
    "but no subresource": ({}, STATUS, False),
    "with all subresources": ({"resources": ["*/*"]}, STATUS, True),
    "all subresources of one": ({"resources": ["pods/*"]}, STATUS, True),
    "and itself": ({"resources": ["pods/*"]}, PODS, True),
    "not of another": ({"resources": ["pods/*"]}, SCALE, False),
    "one subresource of all": ({"resources": ["*/status"]}, STATUS, True),
    "not another one": ({"resources": ["*/status"]}, SCALE, False),
    "one subresource": ({"resources": ["deployments/scale"]}, SCALE, True),
    "not the resource": ({"resources": ["pods/status"]}, PODS, False),
    "a name in other letters": ({"resources": ["Pods"]}, PODS, False),
    "an operation": ({"operations": ["CREATE", "UPDATE"]}, PODS, True),
    "another operation": ({"operations": ["DELETE"]}, PODS, False),
    "a group": ({"apiGroups": ["apps"], "resources": ["*/*"]}, SCALE, True),
    "another group": ({"apiGroups": ["apps"]}, PODS, False),
    "the core group": ({"apiGroups": [""]}, PODS, True),
    "another version": ({"apiVersions": ["v2"]}, PODS, False),
    "namespaced": ({"scope": "Namespaced"}, PODS, True),
    "namespaced, and it is not": ({"scope": "Namespaced"}, NODES, False),
    "of the cluster": ({"scope": "Cluster"}, NODES, True),
    "of the cluster, and it is not": ({"scope": "Cluster"}, PODS, False),
    "a name": ({"resourceNames": ["a"]}, PODS, True),
    "another name": ({"resourceNames": ["b"]}, PODS, False),
    "no names": ({"resourceNames": []}, PODS, True),
    "a name that is generated": ({"resourceNames": ["a"]}, PODS._replace(name=""), False),
    "nothing at all": ({"resources": []}, PODS, False),
}


@pytest.mark.parametrize(("fields", "target", "matches"), CASES.values(), ids=CASES)
def test_rule(fields: dict[str, Any], target: MatchAttributes, matches: bool) -> None:
    assert rule(**fields).matches(target) is matches


@pytest.mark.parametrize(("fields", "target", "matches"), CASES.values(), ids=CASES)
def test_what_matches_is_concerned(fields: dict[str, Any], target: MatchAttributes, matches: bool) -> None:
    """The table of plugins is looked up without a version, a namespace and a name."""
    concerned = rule(**fields).concerns(target.group, target.resource, target.subresource, target.operation)
    assert concerned or not matches
