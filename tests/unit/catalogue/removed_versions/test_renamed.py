"""Versions that differ from those that have replaced them in little more than their names.

Rows T03, T06, T08, T12, T15-T17, T19, T22-T24.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, catalogue, read_by_current, table

RULES: Final = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
SUBJECTS: Final = [{"kind": "User", "name": "alice"}]
SERVICE: Final = {"namespace": "default", "name": "a"}
API: Final = {"group": "example.org", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
# Row and kind -> resource, the last release that has v1beta1, and an object without what defaults set.
RENAMED: Final[dict[str, tuple[str, int, dict[str, Any]]]] = {
    "T03 CSIStorageCapacity": ("csistoragecapacities.storage.k8s.io", 26, {"storageClassName": "a"}),
    "T12 RuntimeClass": ("runtimeclasses.node.k8s.io", 24, {"handler": "runc"}),
    "T15 APIService": ("apiservices.apiregistration.k8s.io", 21, {"spec": {**API, "service": SERVICE}}),
    "T19 Lease": ("leases.coordination.k8s.io", 21, {"spec": {"holderIdentity": "me"}}),
    "T22 ClusterRole": ("clusterroles.rbac.authorization.k8s.io", 21, {"rules": RULES}),
    "T22 Role": ("roles.rbac.authorization.k8s.io", 21, {"rules": RULES}),
    "T22 ClusterRoleBinding": (
        "clusterrolebindings.rbac.authorization.k8s.io",
        21,
        {"roleRef": {"kind": "ClusterRole", "name": "a"}, "subjects": SUBJECTS},
    ),
    "T22 RoleBinding": (
        "rolebindings.rbac.authorization.k8s.io",
        21,
        {"roleRef": {"kind": "Role", "name": "a"}, "subjects": SUBJECTS},
    ),
    "T23 PriorityClass": ("priorityclasses.scheduling.k8s.io", 21, {"value": 1, "description": "Low."}),
    "T24 CSIDriver": ("csidrivers.storage.k8s.io", 21, {"spec": {}}),
    "T24 CSINode": ("csinodes.storage.k8s.io", 21, {"spec": {"drivers": [{"name": "a.b", "nodeID": "a"}]}}),
    "T24 StorageClass": ("storageclasses.storage.k8s.io", 21, {"provisioner": "example.com/disks"}),
    "T24 VolumeAttachment": (
        "volumeattachments.storage.k8s.io",
        21,
        {"spec": {"attacher": "a.b", "nodeName": "a", "source": {"persistentVolumeName": "a"}}},
    ),
}


@pytest.mark.parametrize(("resource", "minor", "fields"), RENAMED.values(), ids=RENAMED)
def test_v1beta1_has_the_defaults_and_the_rules_of_v1(
    resource: str, minor: int, fields: dict[str, Any]
) -> None:
    beta, stable = (OldKind(resource, version, minor, fields) for version in ("v1beta1", "v1"))
    assert beta.current() == stable.completed()
    assert beta.strategy == stable.strategy
    assert beta.resource.definition != stable.resource.definition
    document = beta.completed()
    assert beta.from_hub(beta.to_hub(document)) == document
    assert read_by_current(document) == beta.to_hub(document)


@pytest.mark.parametrize(("resource", "minor"), [each[:2] for each in RENAMED.values()], ids=RENAMED)
def test_the_release_after_does_not_have_it(resource: str, minor: int) -> None:
    name, _, group = resource.partition(".")
    assert table(minor).find(group, "v1beta1", name) is not None
    assert table(minor + 1).find(group, "v1beta1", name) is None
    assert table(minor + 1).find(group, "v1", name) is not None


# Of v1alpha1: the last release that has it.
ALPHAS: Final[dict[str, tuple[str, int, dict[str, Any]]]] = {
    "T23 PriorityClass": ("priorityclasses.scheduling.k8s.io", 22, RENAMED["T23 PriorityClass"][2]),
    "T24 VolumeAttachment": ("volumeattachments.storage.k8s.io", 22, RENAMED["T24 VolumeAttachment"][2]),
    "T03 CSIStorageCapacity": (
        "csistoragecapacities.storage.k8s.io",
        23,
        RENAMED["T03 CSIStorageCapacity"][2],
    ),
    "VolumeAttributesClass": (
        "volumeattributesclasses.storage.k8s.io",
        34,
        {"driverName": "a.b", "parameters": {"a": "b"}},
    ),
    "T22 ClusterRole": ("clusterroles.rbac.authorization.k8s.io", 22, {"rules": RULES}),
    "MutatingAdmissionPolicyBinding": (
        "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        36,
        {"spec": {"policyName": "a"}},
    ),
    "ValidatingAdmissionPolicyBinding": (
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        31,
        {"spec": {"policyName": "a", "validationActions": ["Deny"]}},
    ),
}


@pytest.mark.parametrize(("resource", "minor", "fields"), ALPHAS.values(), ids=ALPHAS)
def test_h01_alpha_versions_are_served_when_they_are_asked_for(
    resource: str, minor: int, fields: dict[str, Any]
) -> None:
    alpha = OldKind(resource, "v1alpha1", minor, fields)
    assert alpha.create().texts == []
    document = alpha.completed()
    assert alpha.to_hub(document)["apiVersion"].endswith("/v1")
    assert alpha.from_hub(alpha.to_hub(document)) == document
    assert read_by_current(document) == alpha.to_hub(document)
    name, _, group = resource.partition(".")
    assert catalogue(minor).resources().find(group, "v1alpha1", name) is None


LEASE: Final = OldKind("leases.coordination.k8s.io", "v1beta1", 21, {})


@given(
    st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(), max_size=5)
)
def test_fields_that_came_later_are_kept(spec: dict[str, Any]) -> None:
    document = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {}, "spec": spec}
    assert LEASE.to_hub(LEASE.from_hub(document)) == document


# ---- cron jobs

CRON_JOB: Final = {
    "spec": {
        "schedule": "0 * * * *",
        "jobTemplate": {
            "spec": {
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "busybox:1"}]}
                }
            }
        },
    }
}
CRON_JOBS: Final = {
    "v1beta1": OldKind("cronjobs.batch", "v1beta1", 24, CRON_JOB),
    "v2alpha1": OldKind("cronjobs.batch", "v2alpha1", 20, CRON_JOB),
}
V1_CRON_JOB: Final = OldKind("cronjobs.batch", "v1", 24, CRON_JOB)
each_cron_job = pytest.mark.parametrize("kind", CRON_JOBS.values(), ids=CRON_JOBS)


@each_cron_job
def test_t06_cron_jobs_have_the_fields_defaults_and_rules_of_v1(kind: OldKind) -> None:
    document = kind.completed()
    assert kind.to_hub(document) == V1_CRON_JOB.completed()
    assert kind.from_hub(kind.to_hub(document)) == document
    assert read_by_current(document) == kind.to_hub(document)
    assert kind.create({"spec.schedule": "x", "spec.concurrencyPolicy": "y"}).texts == (
        V1_CRON_JOB.create({"spec.schedule": "x", "spec.concurrencyPolicy": "y"}).texts
    )


@each_cron_job
def test_t06_jobs_outlive_their_cron_job(kind: OldKind) -> None:
    assert kind.strategy.orphans_by_default
    assert not V1_CRON_JOB.strategy.orphans_by_default


@each_cron_job
@given(spec=st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(max_size=3), max_size=3))
def test_nothing_of_a_cron_job_is_lost(kind: OldKind, spec: dict[str, Any]) -> None:
    document = {**kind.valid, "spec": spec}
    assert kind.from_hub(kind.to_hub(document)) == document


# ---- events

POD: Final = {"kind": "Pod", "name": "a", "namespace": "default"}
OLD_EVENT: Final = {
    "note": "Old news.",
    "regarding": POD,
    "type": "Strange",
    "deprecatedSource": {"component": "kubelet"},
    "deprecatedCount": 3,
    "deprecatedFirstTimestamp": "2024-05-06T07:08:09Z",
}
EVENT: Final = OldKind("events.events.k8s.io", "v1beta1", 24, OLD_EVENT)


def test_t08_events_of_v1beta1_may_have_what_v1_refuses() -> None:
    assert EVENT.create().texts == []
    assert OldKind("events.events.k8s.io", "v1", 24, OLD_EVENT).create().texts == [
        "eventTime: Required value",
        'type: Invalid value: "": has invalid value: Strange',
        'firstTimestamp: Invalid value: "": needs to be unset',
        'count: Invalid value: "": needs to be unset',
        'source: Invalid value: "": needs to be unset',
    ]


def test_t08_events_of_v1beta1_change_in_any_field() -> None:
    assert EVENT.update({"note": "Other news."}).texts == []


def test_t08_events_are_those_of_the_core_group() -> None:
    document = EVENT.completed()
    core = EVENT.to_hub(document)
    assert (core["apiVersion"], core["message"], core["involvedObject"]) == ("v1", "Old news.", POD)
    assert (core["count"], core["source"]) == (3, {"component": "kubelet"})
    assert EVENT.from_hub(core) == document


TIME: Final = st.sampled_from(("2024-05-06T07:08:09Z", "2025-05-06T07:08:09Z"))
TEXT: Final = st.text(min_size=1, max_size=3)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "note": TEXT,
            "regarding": st.just(POD),
            "related": st.just(POD),
            "action": TEXT,
            "reason": TEXT,
            "type": TEXT,
            "reportingController": TEXT,
            "reportingInstance": TEXT,
            "deprecatedCount": st.integers(1, 9),
            "deprecatedSource": st.just({"component": "kubelet", "host": "a"}),
            "deprecatedFirstTimestamp": TIME,
            "deprecatedLastTimestamp": TIME,
            "series": st.fixed_dictionaries({"count": st.integers(0, 9)}),
        },
    )
)
def test_nothing_of_an_event_is_lost(fields: dict[str, Any]) -> None:
    document = {"apiVersion": "events.k8s.io/v1beta1", "kind": "Event", "metadata": {}, **fields}
    assert EVENT.from_hub(EVENT.to_hub(document)) == document


# ---- reviews

REVIEW: Final = {"spec": {"user": "alice", "group": ["dev"], "uid": "1"}}


@pytest.mark.parametrize("resource", ["subjectaccessreviews", "localsubjectaccessreviews"])
def test_t17_the_groups_of_a_review_have_another_name(resource: str) -> None:
    kind = OldKind(f"{resource}.authorization.k8s.io", "v1beta1", 21, REVIEW)
    document = kind.completed()
    assert kind.to_hub(document)["spec"] == {"user": "alice", "groups": ["dev"], "uid": "1"}
    assert kind.from_hub(kind.to_hub(document)) == document


@pytest.mark.parametrize(
    ("resource", "minor"),
    [
        ("tokenreviews.authentication.k8s.io", 21),
        ("selfsubjectreviews.authentication.k8s.io", 32),
        ("selfsubjectaccessreviews.authorization.k8s.io", 21),
        ("selfsubjectrulesreviews.authorization.k8s.io", 21),
    ],
)
def test_t16_t17_other_reviews_are_the_same(resource: str, minor: int) -> None:
    kind = OldKind(resource, "v1beta1", minor, {"spec": {"a": 1}})
    current = {**kind.valid, "apiVersion": kind.valid["apiVersion"].replace("v1beta1", "v1")}
    assert kind.to_hub(kind.valid) == current
