"""PodGroups and Workloads. Source: k8s.io/api/scheduling/v1alpha2 (release 1.36); rows H01, H09, S01, S03."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

GROUP: Final = "scheduling.k8s.io"
GANG: Final = {"gang": {"minCount": 3}}
POD_GROUP: Final = OldKind(
    f"podgroups.{GROUP}",
    "v1alpha2",
    36,
    {
        "spec": {
            "podGroupTemplateRef": {"workload": {"workloadName": "web", "podGroupTemplateName": "workers"}},
            "schedulingPolicy": GANG,
        }
    },
)
TEMPLATE: Final = {"name": "workers", "schedulingPolicy": GANG}
WORKLOAD: Final = OldKind(
    f"workloads.{GROUP}",
    "v1alpha2",
    36,
    {
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "web"},
            "podGroupTemplates": [TEMPLATE, {"name": "driver", "schedulingPolicy": {"basic": {}}}],
        }
    },
)
POLICY: Final = "spec.schedulingPolicy"

# A kind, and what is wrong with it: the beginnings of what is told.
INVALID: Final[dict[str, tuple[OldKind, Changes, list[str]]]] = {
    "no policy": (
        POD_GROUP,
        {POLICY: {}},
        [f'{POLICY}: Invalid value: "": must specify one of: `basic`, `gang`'],
    ),
    "two policies": (
        POD_GROUP,
        {f"{POLICY}.basic": {}},
        [f'{POLICY}: Invalid value: "{{basic, gang}}": must specify exactly one of: `basic`'],
    ),
    "no number of pods": (
        POD_GROUP,
        {f"{POLICY}.gang": {"minCount": 0}},
        [f"{POLICY}.gang.minCount: Required value"],
    ),
    "a negative number of pods": (
        POD_GROUP,
        {f"{POLICY}.gang": {"minCount": -1}},
        [f"{POLICY}.gang.minCount: Invalid value: -1: must be greater than or equal to 1"],
    ),
    "a template of nothing": (
        POD_GROUP,
        {"spec.podGroupTemplateRef": {}},
        ['spec.podGroupTemplateRef: Invalid value: "": must specify one of: `workload`'],
    ),
    "a template without names": (
        POD_GROUP,
        {"spec.podGroupTemplateRef": {"workload": {"workloadName": "", "podGroupTemplateName": "a.b"}}},
        [
            "spec.podGroupTemplateRef.workload.workloadName: Required value",
            'spec.podGroupTemplateRef.workload.podGroupTemplateName: Invalid value: "a.b"',
        ],
    ),
    "no templates": (WORKLOAD, {"spec.podGroupTemplates": []}, ["spec.podGroupTemplates: Required value"]),
    "too many templates": (
        WORKLOAD,
        {"spec.podGroupTemplates": [TEMPLATE] * 9},
        ["spec.podGroupTemplates: Too many: 9: must have at most 8 items"],
    ),
    "a template twice": (
        WORKLOAD,
        {"spec.podGroupTemplates": [TEMPLATE, TEMPLATE]},
        [
            (
                'spec.podGroupTemplates[1]: Duplicate value: {"name":"workers",'
                '"schedulingPolicy":{"gang":{"minCount":3}},"schedulingConstraints":null}'
            )
        ],
    ),
    "a template without anything": (
        WORKLOAD,
        {"spec.podGroupTemplates": [{"name": ""}]},
        [
            "spec.podGroupTemplates[0].name: Required value",
            "spec.podGroupTemplates[0].schedulingPolicy: Invalid value",
        ],
    ),
    "no controller": (
        WORKLOAD,
        {"spec.controllerRef": {"apiGroup": "A", "kind": "", "name": "a/b"}},
        [
            'spec.controllerRef.apiGroup: Invalid value: "A"',
            "spec.controllerRef.kind: Required value",
            "spec.controllerRef.name: Invalid value: \"a/b\": may not contain '/'",
        ],
    ),
}


@pytest.mark.parametrize(("kind", "changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(kind: OldKind, changes: Changes, beginnings: list[str]) -> None:
    assert kind.create().texts == []
    assert_texts_begin(kind.create(changes).texts, beginnings)


def test_what_needs_other_features_is_left_out() -> None:
    """As with their gates off: topology, claims of groups, priorities."""
    fields: dict[str, Any] = {"priorityClassName": "high", "priority": 7, "disruptionMode": "PodGroup"}
    group = POD_GROUP.create({f"spec.{field}": value for field, value in fields.items()})
    assert group.document["spec"] == POD_GROUP.create().document["spec"]
    workload = WORKLOAD.create(
        {f"spec.podGroupTemplates.0.{field}": value for field, value in fields.items()}
    )
    assert workload.document["spec"] == WORKLOAD.create().document["spec"]


def test_a_group_stays_what_it_is() -> None:
    assert POD_GROUP.update({"metadata.labels": {"a": "b"}}).texts == []
    (text,) = POD_GROUP.update({f"{POLICY}.gang.minCount": 4}).texts
    assert text.startswith(f"{POLICY}: Invalid value")
    assert text.endswith("field is immutable")


def test_a_workload_stays_what_it_is() -> None:
    """Also one that tells no controller."""
    none: Changes = {"spec.controllerRef": None}
    told = {"spec.controllerRef": {"kind": "Job", "name": "web"}}
    for changes, old in ((told, none), (told, {}), (none, {}), ({"spec.podGroupTemplates.0.name": "x"}, {})):
        (text,) = WORKLOAD.update(changes, old=old).texts
        assert text.endswith("field is immutable")


def condition(**fields: Any) -> Document:
    at = "2024-05-06T07:08:09Z"
    return {"type": "PodGroupScheduled", "status": "True", "reason": "R", "lastTransitionTime": at, **fields}


def test_the_status_is_the_schedulers() -> None:
    assert POD_GROUP.create({"status": {"conditions": [condition()]}}).document["status"] == {}
    written = POD_GROUP.update({"status": {"conditions": [condition()]}, "spec": {}}, "status")
    assert written.texts == []
    assert written.document["spec"] == POD_GROUP.create().document["spec"]
    (text,) = POD_GROUP.update({"status": {"conditions": [condition(status="Maybe")]}}, "status").texts
    assert text.startswith('status.conditions[0].status: Unsupported value: "Maybe"')


def test_v1alpha1_has_groups_in_a_workload() -> None:
    groups = [{"name": "workers", "policy": GANG}, {"name": "driver", "policy": {"basic": {}}}]
    alpha = OldKind(f"workloads.{GROUP}", "v1alpha1", 35, {"spec": {"podGroups": groups}})
    assert alpha.create().texts == []
    document = alpha.completed()
    current = alpha.to_hub(document)
    assert current["spec"] == {"podGroupTemplates": WORKLOAD.valid["spec"]["podGroupTemplates"]}
    assert alpha.from_hub(current) == document
    assert read_by_current(document) == current
    assert alpha.resource.has_protobuf
