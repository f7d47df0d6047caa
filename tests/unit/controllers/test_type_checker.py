"""Which types the expressions of a policy are checked against.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/validating/typechecking_test.go.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.controllers.policy_type_checking.type_checker import TYPES_MAX, types_to_check
from tests.support.in_process import TABLE


def rule(groups: list[str], versions: list[str], resources: list[str]) -> dict[str, Any]:
    return {"apiGroups": groups, "apiVersions": versions, "resources": resources}


WORKLOADS: Final = ["statefulsets", "deployments", "daemonsets"]
# Rules, and the types that they name.
TYPES: Final[dict[str, tuple[list[dict[str, Any]], list[str]]]] = {
    "each once, sorted": (
        [rule(["apps"], ["v1"], WORKLOADS), rule(["", "apps"], ["v1"], ["pods", "deployments"])],
        ["/v1/Pod", "apps/v1/DaemonSet", "apps/v1/Deployment", "apps/v1/StatefulSet"],
    ),
    "what is not served": (
        [rule(["apps", "x"], ["v1", "v9"], ["deployments", "nothing"])],
        ["apps/v1/Deployment"],
    ),
    "any group": ([rule(["apps", "*"], ["v1"], WORKLOADS)], []),
    "any version": ([rule(["apps"], ["*"], WORKLOADS)], []),
    "any resource, and subresources": ([rule(["apps"], ["v1"], ["*", "deployments/scale"])], []),
    "nothing": ([{}], []),
}


@pytest.mark.parametrize(("rules", "types"), TYPES.values(), ids=TYPES)
def test_which_types_are_checked(rules: list[dict[str, Any]], types: list[str]) -> None:
    policy = {"spec": {"matchConstraints": {"resourceRules": rules}}}
    found = types_to_check(policy, TABLE)
    assert ["/".join((*each.group_version, each.kind)) for each in found] == types


def test_no_more_types_than_a_few_however_many_are_named() -> None:
    """Thousands of groups, versions and resources in one rule are billions of combinations."""
    served = TABLE.resources
    many = [f"x{number}" for number in range(2_000)]
    everything = rule(
        [*many, *{each.group_version.group for each in served}],
        [*many, *{each.group_version.version for each in served}],
        [*many, *{each.resource for each in served}],
    )
    policy = {"spec": {"matchConstraints": {"resourceRules": [everything] * 3}}}
    assert len(types_to_check(policy, TABLE)) == TYPES_MAX
