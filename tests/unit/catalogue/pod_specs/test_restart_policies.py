"""Containers with restart policies of their own, and rules of theirs (KEP-5307, KEP-5532).

Source: pkg/apis/core/validation, validateContainerRestartPolicy and validateInitContainerRestartPolicy.
"""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.catalogue.pod_specs.restart_policies import (
    validate_init_restart_policy,
    validate_restart_policy,
)
from tests.unit.catalogue.valid_pods import RULES, Document, Expected, assert_agree, rules

C: Final = "c"
RULE: Final = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}
ALL: Final = {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": []}}
NEEDS_POLICY: Final = (
    f"{C}.restartPolicy",
    "Required",
    "must specify restartPolicy when restart rules are used",
)
ONLY_INIT: Final = (f"{C}.restartPolicy", "Forbidden", "may not be set for non-init containers")
NOT_SIDECARS: Final = (
    f"{C}.restartPolicyRules",
    "Forbidden",
    "restartPolicyRules are not allowed for init containers with restart policy Always",
)
ONE: Final = {"restartPolicy": "Never", "restartPolicyRules": [RULE]}
WITHOUT_ALL: Final = rules(RestartAllContainersOnContainerExits=False).specs.options
WITHOUT: Final = rules(ContainerRestartRules=False, RestartAllContainersOnContainerExits=False).specs.options

# A container, and what is wrong with it where it stands among the containers, and among the init containers.
CONTAINERS: Final[dict[str, tuple[Document, list[Expected], list[Expected]]]] = {
    "no policy": ({}, [], []),
    "Always": ({"restartPolicy": "Always"}, [], []),
    "OnFailure": ({"restartPolicy": "OnFailure"}, [], []),
    "Never": ({"restartPolicy": "Never"}, [], []),
    "no such policy": (
        {"restartPolicy": "never"},
        [(f"{C}.restartPolicy", "NotSupported", '"never": supported values: "Always", "Never", "OnFailure"')],
        [(f"{C}.restartPolicy", "NotSupported", '"never": supported values: "Always", "Never", "OnFailure"')],
    ),
    "an empty text": (
        {"restartPolicy": ""},
        [(f"{C}.restartPolicy", "NotSupported", '""')],
        [(f"{C}.restartPolicy", "NotSupported", '""')],
    ),
    "a rule": (ONE, [], []),
    "a rule for a sidecar": ({**ONE, "restartPolicy": "Always"}, [], []),
    "rules and no policy": ({"restartPolicyRules": [RULE]}, [NEEDS_POLICY], [NEEDS_POLICY]),
    "an empty list of rules": ({"restartPolicyRules": []}, [], []),
    "all containers": ({**ONE, "restartPolicyRules": [ALL]}, [], []),
    "twenty rules": ({**ONE, "restartPolicyRules": [RULE] * 20}, [], []),
    "a rule too many": (
        {**ONE, "restartPolicyRules": [RULE] * 21},
        [(f"{C}.restartPolicyRules", "TooMany", "21: must have at most 20 items")],
        [(f"{C}.restartPolicyRules", "TooMany", "21: must have at most 20 items")],
    ),
}
# A rule, and what is wrong with it.
BAD_RULES: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "nothing": (
        {},
        [
            ("action", "NotSupported", '"": supported values: "Restart", "RestartAllContainers"'),
            ("exitCodes", "Required", "must be specified"),
        ],
    ),
    "another action": (
        {**RULE, "action": "Terminate"},
        [("action", "NotSupported", '"Terminate": supported values: "Restart", "RestartAllContainers"')],
    ),
    "another operator": (
        {**RULE, "exitCodes": {"operator": "Is", "values": [1]}},
        [("exitCodes.operator", "NotSupported", '"Is": supported values: "In", "NotIn"')],
    ),
    "all exit codes": ({**RULE, "exitCodes": {"operator": "In", "values": [*range(255)]}}, []),
    "an exit code too many": (
        {**RULE, "exitCodes": {"operator": "In", "values": [*range(256)]}},
        [("exitCodes.values", "TooMany", "256: must have at most 255 items")],
    ),
}


@pytest.mark.parametrize(("container", "regular", "init"), CONTAINERS.values(), ids=CONTAINERS)
def test_policies(container: Document, regular: list[Expected], init: list[Expected]) -> None:
    options = RULES.specs.options
    for check, expected in ((validate_restart_policy, regular), (validate_init_restart_policy, init)):
        assert_agree(check(C, container, options), expected)


@pytest.mark.parametrize(("rule", "expected"), BAD_RULES.values(), ids=BAD_RULES)
def test_rules(rule: Document, expected: list[Expected]) -> None:
    container = {"restartPolicy": "Never", "restartPolicyRules": [RULE, rule]}
    where = f"{C}.restartPolicyRules[1]"
    expected = [(f"{where}.{field}", reason, part) for field, reason, part in expected]
    assert_agree(validate_restart_policy(C, container, RULES.specs.options), expected)


def test_all_containers_restart_only_by_their_gate() -> None:
    """Without it, sidecars have no rules either."""
    supported = (
        f"{C}.restartPolicyRules[0].action",
        "NotSupported",
        '"RestartAllContainers": supported values: "R',
    )
    everywhere = {**ONE, "restartPolicyRules": [ALL]}
    assert_agree(validate_restart_policy(C, everywhere, WITHOUT_ALL), [supported])
    assert_agree(validate_init_restart_policy(C, everywhere, WITHOUT_ALL), [supported])
    assert validate_init_restart_policy(C, ONE, WITHOUT_ALL) == []
    sidecar = {**ONE, "restartPolicy": "Always"}
    assert_agree(validate_init_restart_policy(C, sidecar, WITHOUT_ALL), [NOT_SIDECARS])


def test_containers_have_no_policy_before_their_gate_is_on() -> None:
    """As in the releases before 1.34: an init container may be a sidecar, and nothing else."""
    assert_agree(validate_restart_policy(C, {"restartPolicy": "Always"}, WITHOUT), [ONLY_INIT])
    assert validate_init_restart_policy(C, {"restartPolicy": "Always"}, WITHOUT) == []
    errors = validate_init_restart_policy(C, {"restartPolicy": "Never"}, WITHOUT)
    assert_agree(errors, [(f"{C}.restartPolicy", "NotSupported", '"Never": supported values: "Always"')])
