"""Disruption budgets and security policies of policy/v1beta1. Rows T10, T11, T30.

Source: pkg/apis/policy (release 1.24).
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.schema.validation.label_selectors import selects
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current, table
from tests.unit.catalogue.served_kinds import Changes

PDB: Final = "poddisruptionbudgets.policy"
BUDGETS: Final = OldKind(PDB, "v1beta1", 24, {"spec": {"minAvailable": 1}})
LABEL: Final = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
ABSENT: Final = {"matchExpressions": [{"key": LABEL, "operator": "DoesNotExist"}]}
PRESENT: Final = {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}
WEB: Final = {"matchLabels": {"app": "web"}}
# The selector in v1beta1, in v1, and whether it selects a pod with the label app=web.
SELECTORS: Final[dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None, bool]]] = {
    "an empty one selects none": ({}, PRESENT, False),
    "one for all is empty in v1": (ABSENT, {}, True),
    "no selector selects none in both": (None, None, False),
    "others are the same": (WEB, WEB, True),
}


@pytest.mark.parametrize(("beta", "stable", "selected"), SELECTORS.values(), ids=SELECTORS)
def test_t10_what_a_selector_selects(
    beta: dict[str, Any] | None, stable: dict[str, Any] | None, selected: bool
) -> None:
    document = BUDGETS.completed({"spec.selector": beta})
    current = BUDGETS.to_hub(document)
    assert current["spec"].get("selector") == stable
    assert BUDGETS.from_hub(current) == document
    assert read_by_current(document) == current
    found = current["spec"].get("selector")
    assert (found is not None and selects(found, {"app": "web"})) is selected
    assert BUDGETS.create({"spec.selector": beta}).errors == []


@given(
    selector=st.sampled_from(({}, ABSENT, PRESENT, WEB)),
    later=st.fixed_dictionaries({}, optional={"unhealthyPodEvictionPolicy": st.just("AlwaysAllow")}),
)
def test_nothing_of_v1_is_lost(selector: dict[str, Any], later: dict[str, Any]) -> None:
    """A selector may come back in another form; it selects the same."""
    document = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "a"},
        "spec": {"selector": selector, **later},
    }
    shown = BUDGETS.from_hub(document)
    assert shown["spec"].items() >= later.items()
    assert BUDGETS.resource.check(shown) == []
    again = BUDGETS.to_hub(shown)["spec"]
    for labels in ({}, {"app": "web"}):
        assert selects(again["selector"], labels) is selects(selector, labels)
    assert again.items() >= later.items()
    assert BUDGETS.from_hub(BUDGETS.to_hub(shown)) == shown


def test_t10_counts_of_a_status_are_not_checked() -> None:
    negative = {"status.disruptionsAllowed": -1}
    assert BUDGETS.update(negative, "status").errors == []
    v1 = OldKind(PDB, "v1", 24, {"spec": {"minAvailable": 1}})
    assert [error.field for error in v1.update(negative, "status").errors] == ["status.disruptionsAllowed"]


# ---- security policies

POLICY: Final = {
    "spec": {
        "seLinux": {"rule": "RunAsAny"},
        "runAsUser": {"rule": "RunAsAny"},
        "supplementalGroups": {"rule": "RunAsAny"},
        "fsGroup": {"rule": "RunAsAny"},
    }
}
POLICIES: Final = OldKind("podsecuritypolicies.policy", "v1beta1", 24, POLICY)
OLD_POLICIES: Final = OldKind("podsecuritypolicies.extensions", "v1beta1", 15, POLICY)
each_policy = pytest.mark.parametrize("kind", [POLICIES, OLD_POLICIES], ids=["policy", "extensions"])


@each_policy
def test_t30_both_versions_are_the_same(kind: OldKind) -> None:
    document = kind.completed()
    assert document["spec"] == {**POLICY["spec"], "allowPrivilegeEscalation": True}
    assert kind.create().errors == []
    assert kind.from_hub(kind.to_hub(document)) == document
    assert kind.to_hub(document) == POLICIES.completed()
    # No release that is served now has them: they are what they were.
    assert read_by_current(document)["spec"] == document["spec"]


def test_t11_no_version_has_replaced_them() -> None:
    assert table(24).find("policy", "v1beta1", "podsecuritypolicies") is not None
    assert table(25).find("policy", "v1beta1", "podsecuritypolicies") is None
    assert table(25).hub("policy", "podsecuritypolicies") is None
    assert table(15).find("extensions", "v1beta1", "podsecuritypolicies") is not None
    assert table(16).find("extensions", "v1beta1", "podsecuritypolicies") is None


RANGE: Final = [{"min": 1, "max": 2}]
SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/"
APP_ARMOR: Final = "apparmor.security.beta.kubernetes.io/"
REGEX: Final = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]"
ERRORS: Final[dict[str, tuple[Changes, list[str]]]] = {
    "rules are there": (
        {"spec": {}},
        [
            (
                'spec.runAsUser.rule: Unsupported value: "": supported values: "MustRunAs", '
                '"MustRunAsNonRoot", "RunAsAny"'
            ),
            'spec.seLinux.rule: Unsupported value: "": supported values: "MustRunAs", "RunAsAny"',
            (
                'spec.supplementalGroups.rule: Unsupported value: "": supported values: "MayRunAs", '
                '"MustRunAs", "RunAsAny"'
            ),
            'spec.fsGroup.rule: Unsupported value: "": supported values: "MayRunAs", "MustRunAs", "RunAsAny"',
        ],
    ),
    "ranges": (
        {"spec.runAsUser.ranges": [{"min": 3, "max": 2}], "spec.fsGroup.ranges": [{"min": -2, "max": -1}]},
        [
            "spec.runAsUser.ranges[0].min: Invalid value: 3: min cannot be greater than max",
            "spec.fsGroup.ranges[0].min: Invalid value: -2: min cannot be negative",
            "spec.fsGroup.ranges[0].max: Invalid value: -1: max cannot be negative",
        ],
    ),
    "any group": ({"spec.runAsGroup": {"rule": "RunAsAny"}}, []),
    "any group has no ranges": (
        {"spec.runAsGroup": {"rule": "RunAsAny", "ranges": RANGE}},
        ['spec.runAsGroup.ranges: Invalid value: [{"min":1,"max":2}]: Ranges must be empty'],
    ),
    "groups of ranges": ({"spec.runAsGroup": {"rule": "MustRunAs", "ranges": RANGE}}, []),
    "groups without ranges": (
        {"spec.runAsGroup": {"rule": "MayRunAs"}},
        ["spec.runAsGroup.ranges: Invalid value: []: must provide at least one range"],
    ),
    "another rule for groups": (
        {"spec.runAsGroup": {"rule": "No"}},
        [
            (
                'spec.runAsGroup.rule: Unsupported value: "No": supported values: "MustRunAs", "RunAsAny", '
                '"MayRunAs"'
            )
        ],
    ),
    "all capabilities, and some are dropped": (
        {"spec.allowedCapabilities": ["*"], "spec.requiredDropCapabilities": ["A"]},
        [
            (
                'requiredDropCapabilities: Invalid value: ["A"]: must be empty when all capabilities are '
                "allowed by a wildcard"
            )
        ],
    ),
    "capabilities that are dropped": (
        {"spec.defaultAddCapabilities": ["A", "B"], "spec.requiredDropCapabilities": ["A"]},
        [
            (
                'defaultAddCapabilities: Invalid value: "A": capability is listed in '
                "defaultAddCapabilities and requiredDropCapabilities"
            )
        ],
    ),
    "escalation by default needs escalation": (
        {"spec.defaultAllowPrivilegeEscalation": True, "spec.allowPrivilegeEscalation": False},
        [
            (
                "spec.defaultAllowPrivilegeEscalation: Invalid value: true: Cannot set "
                "DefaultAllowPrivilegeEscalation to true without also setting "
                "AllowPrivilegeEscalation to true"
            )
        ],
    ),
    "mounts of /proc": (
        {"spec.allowedProcMountTypes": ["Default", "No"]},
        ['spec.allowedProcMountTypes[1]: Unsupported value: "No": supported values: "Default", "Unmasked"'],
    ),
    "host paths": (
        {"spec.allowedHostPaths": [{"pathPrefix": "/a/../b"}, {"readOnly": True}, {}]},
        [
            "spec.allowedHostPaths[0]: Invalid value: \"/a/../b\": must not contain '..'",
            "spec.allowedHostPaths[1]: Required value: is required",
        ],
    ),
    "drivers": (
        {"spec.allowedFlexVolumes": [{}], "spec.allowedCSIDrivers": [{"name": "a"}, {"name": "A_b"}]},
        ["spec.allowedFlexVolumes.allowedFlexVolumes[0].driver: Required value: must specify a driver"],
    ),
    "sysctls": (
        {"spec.allowedUnsafeSysctls": ["kernel.*", "", "A"], "spec.forbiddenSysctls": ["*", "net.b"]},
        [
            'spec.allowedUnsafeSysctls[1]: Invalid value: "": empty sysctl not allowed',
            (
                'spec.allowedUnsafeSysctls[2]: Invalid value: "A": must have at most 253 characters and '
                f"match regex {REGEX}"
            ),
            "spec.forbiddenSysctls.items: Forbidden: if '*' is present, must not specify other sysctls",
            'spec.allowedUnsafeSysctls[0]: Invalid value: "kernel.*": sysctl overlaps with *',
            'spec.allowedUnsafeSysctls[1]: Invalid value: "": sysctl overlaps with *',
            'spec.allowedUnsafeSysctls[2]: Invalid value: "A": sysctl overlaps with *',
        ],
    ),
    "sysctls that overlap": (
        {"spec.allowedUnsafeSysctls": ["net.*"], "spec.forbiddenSysctls": ["net.b", "kernel.a"]},
        ['spec.forbiddenSysctls[0]: Invalid value: "net.b": sysctl overlaps with net.*'],
    ),
    "runtime classes": (
        {"spec.runtimeClass": {"allowedRuntimeClassNames": ["a", "a", "*"], "defaultRuntimeClassName": "b"}},
        [
            'spec.runtimeClass.allowedRuntimeClassNames[1]: Duplicate value: "a"',
            (
                'spec.runtimeClass.allowedRuntimeClassNames: Invalid value: ["a","a","*"]: if \'*\' is '
                "present, must not specify other RuntimeClass names"
            ),
        ],
    ),
    "a default that is not allowed": (
        {"spec.runtimeClass": {"allowedRuntimeClassNames": ["a"], "defaultRuntimeClassName": "b"}},
        ['spec.runtimeClass.allowedRuntimeClassNames: Required value: default "b" must be allowed'],
    ),
    "annotations": (
        {
            "metadata.annotations": {
                f"{SECCOMP}defaultProfileName": "x",
                f"{SECCOMP}allowedProfileNames": "*,runtime/default",
                f"{APP_ARMOR}allowedProfileNames": "runtime/default,y",
            }
        },
        [
            (
                f'metadata.annotations[{APP_ARMOR}allowedProfileNames]: Invalid value: "y": invalid AppArmor '
                'profile name: "y"'
            ),
            (
                f'metadata.annotations[{SECCOMP}defaultProfileName]: Invalid value: "x": must be a valid '
                "seccomp profile"
            ),
        ],
    ),
}


@each_policy
@pytest.mark.parametrize(("changes", "texts"), ERRORS.values(), ids=ERRORS)
def test_t11_what_is_wrong_with_a_security_policy(kind: OldKind, changes: Changes, texts: list[str]) -> None:
    found = kind.create(changes).texts
    if "spec.allowedCSIDrivers" in changes:
        assert found.pop().startswith('spec.allowedCSIDrivers.allowedCSIDriver[1].name: Invalid value: "A_b"')
    assert found == texts


def test_t11_volumes_are_of_known_kinds() -> None:
    (error,) = POLICIES.create({"spec.volumes": ["*", "secret", "no"]}).errors
    assert error.field == "spec.volumes"
    assert error.message.startswith('Unsupported value: "no": supported values: "*", "awsElasticBlockStore"')


@each_policy
def test_t11_columns_of_security_policies(kind: OldKind) -> None:
    changes: Changes = {"spec.privileged": True, "spec.volumes": ["secret", "nfs"]}
    cells = kind.resource.columns.cells(kind.completed(changes), 0)
    assert cells[1:9] == ["true", "", "RunAsAny", "RunAsAny", "RunAsAny", "RunAsAny", "false", "secret,nfs"]
