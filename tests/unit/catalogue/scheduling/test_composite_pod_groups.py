"""CompositePodGroups: groups of groups of pods.

Source: k8s.io/api/scheduling/v1alpha3, the declarative rules; KEP-6012; rows H01, H09.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.schema.validation.checks import without_nulls
from tests.unit.catalogue.removed_versions.old_kinds import OldKind
from tests.unit.catalogue.scheduling import test_pod_groups
from tests.unit.catalogue.scheduling.test_release_37 import GROUP
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

SPEC: Final[dict[str, Any]] = {
    "workloadRef": {"workloadName": "web", "templateName": "main"},
    "schedulingPolicy": {"gang": {"minGroupCount": 2}},
}
KIND: Final = OldKind(f"compositepodgroups.{GROUP}", "v1alpha3", 37, {"spec": SPEC})
POLICY: Final = "spec.schedulingPolicy"

# What is wrong, and what is told: the beginnings.
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "everything": (
        {
            "spec.parentCompositePodGroupName": "root",
            "spec.schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
            "spec.disruptionMode": {"all": {}},
            "spec.priorityClassName": "high",
            "spec.priority": 1_000_000_000,
            "spec.preemptionPolicy": "Never",
        },
        [],
    ),
    "each group by itself": ({POLICY: {"basic": {}}}, []),
    "no policy": ({POLICY: {}}, [f'{POLICY}: Invalid value: "": must specify one of: `basic`, `gang`']),
    "two policies": (
        {f"{POLICY}.basic": {}},
        [f'{POLICY}: Invalid value: "{{basic, gang}}": must specify exactly one of: `basic`, `gang`'],
    ),
    "no number of groups": ({f"{POLICY}.gang": {}}, [f"{POLICY}.gang.minGroupCount: Required value"]),
    "less than no groups": (
        {f"{POLICY}.gang.minGroupCount": -1},
        [f"{POLICY}.gang.minGroupCount: Invalid value: -1: must be greater than or equal to 1"],
    ),
    "no workload": ({"spec.workloadRef": None}, ["spec.workloadRef: Required value"]),
    "a workload without anything": (
        {"spec.workloadRef": {}},
        ["spec.workloadRef.workloadName: Required value", "spec.workloadRef.templateName: Required value"],
    ),
    "a parent that cannot be": (
        {"spec.parentCompositePodGroupName": "A"},
        ['spec.parentCompositePodGroupName: Invalid value: "A"'],
    ),
    "no mode": (
        {"spec.disruptionMode": {}},
        ['spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`'],
    ),
    "a priority of the system's": (
        {"spec.priority": 1_000_000_001},
        ["spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000"],
    ),
    "two topologies": (
        {"spec.schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        ["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"],
    ),
}


@pytest.mark.parametrize(("changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, beginnings: list[str]) -> None:
    assert_texts_begin(KIND.create(changes).texts, beginnings)


def test_groups_in_it_are_disrupted_one_by_one() -> None:
    assert KIND.create().texts == []
    assert KIND.create().document["spec"] == {**SPEC, "disruptionMode": {"single": {}}}


# Fields that stay, each with another value.
FIELDS: Final[dict[str, Any]] = {
    "parentCompositePodGroupName": "other",
    "workloadRef": {"workloadName": "other", "templateName": "main"},
    "schedulingPolicy": {"gang": {"minGroupCount": 3}},
    "schedulingConstraints": {"topology": [{"key": "rack"}]},
    "disruptionMode": {"all": {}},
    "priorityClassName": "high",
    "priority": 1,
    "preemptionPolicy": "Never",
}


@pytest.mark.parametrize(("field", "value"), FIELDS.items())
def test_nothing_of_its_spec_changes(field: str, value: Any) -> None:
    (text,) = KIND.update({f"spec.{field}": value}).texts
    assert text.startswith(f"spec.{field}: Invalid value: ")
    assert text.endswith("field is immutable")


def test_the_status_is_the_schedulers() -> None:
    status = {"conditions": [test_pod_groups.condition()]}
    assert KIND.create({"status": status}).document["status"] == {}
    labels: Changes = {"metadata.labels": {"a": "b"}}
    assert KIND.update({**labels, "status": status}).document["status"] == {}
    assert KIND.update(labels).texts == []
    written = KIND.update({**labels, "status": status, "spec": {}}, "status")
    assert written.texts == []
    assert written.document == {**KIND.create().document, "status": written.document["status"]}
    (text,) = KIND.update({"status": {"conditions": [{}]}}, "status").texts[:1]
    assert text.startswith("status.conditions[0].type: ")
    assert not KIND.strategy.allows_unconditional_update


def test_it_is_the_same_in_protobuf() -> None:
    document = KIND.completed(INVALID["everything"][0])
    again = {**document, **KIND.resource.from_protobuf(KIND.resource.to_protobuf(document))}
    assert without_nulls(again) == without_nulls(document)
