"""PodGroups and Workloads of 1.37. Source: k8s.io/api/scheduling/v1beta1; rows H01, H09, S01, S03."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.registry.own_writes import OwnWrites
from apiserver.registry.stored_object import ObjectDecoder, encode, head_of
from apiserver.validation.checks import without_nulls
from apiserver.vocabulary import Document
from storage.interface import Stored
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, catalogue
from tests.unit.catalogue.scheduling import test_pod_groups
from tests.unit.catalogue.served_kinds import Changes

GROUP: Final = "scheduling.k8s.io"
GANG: Final = {"gang": {"minCount": 3}}
REFERENCE: Final = {"workloadName": "web", "templateName": "workers"}
GROUP_SPEC: Final = {"workloadRef": REFERENCE, "schedulingPolicy": GANG}
TEMPLATE: Final = {"name": "workers", "schedulingPolicy": GANG}
WORKLOAD_SPEC: Final = {
    "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "web"},
    "podGroupTemplates": [TEMPLATE, {"name": "driver", "schedulingPolicy": {"basic": {}}}],
}
POD_GROUP: Final = OldKind(f"podgroups.{GROUP}", "v1beta1", 37, {"spec": GROUP_SPEC})
WORKLOAD: Final = OldKind(f"workloads.{GROUP}", "v1beta1", 37, {"spec": WORKLOAD_SPEC})
POLICY: Final = "spec.schedulingPolicy"
TEMPLATES: Final = "spec.podGroupTemplates"

# A kind, and what is wrong with it: the beginnings of what is told.
INVALID: Final[dict[str, tuple[OldKind, Changes, list[str]]]] = {
    "no policy": (
        POD_GROUP,
        {POLICY: {}},
        [f'{POLICY}: Invalid value: "": must specify one of: `basic`, `gang`'],
    ),
    "no number of pods": (
        POD_GROUP,
        {f"{POLICY}.gang.minCount": 0},
        [f"{POLICY}.gang.minCount: Required value"],
    ),
    "a template without names": (
        POD_GROUP,
        {"spec.workloadRef": {"workloadName": "", "templateName": "a.b"}},
        [
            "spec.workloadRef.workloadName: Required value",
            'spec.workloadRef.templateName: Invalid value: "a.b"',
        ],
    ),
    "no mode": (
        POD_GROUP,
        {"spec.disruptionMode": {}},
        ['spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`'],
    ),
    "two modes": (
        POD_GROUP,
        {"spec.disruptionMode": {"single": {}, "all": {}}},
        ['spec.disruptionMode: Invalid value: "{`single`, `all`}": exactly one of `single`, `all` is requ'],
    ),
    "a priority that is too high": (
        POD_GROUP,
        {"spec.priority": 1_000_000_001, "spec.priorityClassName": "A"},
        [
            'spec.priorityClassName: Invalid value: "A"',
            "spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000",
        ],
    ),
    "no templates": (
        WORKLOAD,
        {TEMPLATES: []},
        ['spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`'],
    ),
    "too many templates": (
        WORKLOAD,
        {TEMPLATES: [TEMPLATE] * 9},
        [f"{TEMPLATES}: Too many: 9: must have at "],
    ),
    "a template twice": (
        WORKLOAD,
        {TEMPLATES: [TEMPLATE, TEMPLATE]},
        [f'{TEMPLATES}[1]: Duplicate value: "workers"'],
    ),
    "a template without anything": (
        WORKLOAD,
        {TEMPLATES: [{"name": ""}]},
        [f"{TEMPLATES}[0].name: Required value", f"{TEMPLATES}[0].schedulingPolicy: Invalid value"],
    ),
    "no controller": (
        WORKLOAD,
        {"spec.controllerRef": {"kind": "", "name": "a"}},
        ["spec.controllerRef.kind: Required value"],
    ),
}


def assert_told(texts: list[str], beginnings: list[str]) -> None:
    assert len(texts) == len(beginnings), texts
    for text, beginning in zip(texts, beginnings, strict=True):
        assert text.startswith(beginning)


@pytest.mark.parametrize(("kind", "changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(kind: OldKind, changes: Changes, beginnings: list[str]) -> None:
    assert kind.create().texts == []
    assert_told(kind.create(changes).texts, beginnings)


def test_pods_of_a_group_are_disrupted_one_by_one() -> None:
    assert POD_GROUP.create().document["spec"] == {**GROUP_SPEC, "disruptionMode": {"single": {}}}
    assert WORKLOAD.create().document["spec"] == WORKLOAD_SPEC


def test_what_needs_other_features_is_left_out() -> None:
    """As with their gates off: topology, claims of groups, groups of groups."""
    fields: dict[str, Any] = {"preemptionPolicy": "Never", "schedulingConstraints": {}, "resourceClaims": []}
    changes: Changes = {f"spec.{field}": value for field, value in fields.items()}
    group = POD_GROUP.create({**changes, "spec.parentCompositePodGroupName": "a"})
    assert group.document["spec"] == POD_GROUP.create().document["spec"]
    changes = {f"{TEMPLATES}.0.{field}": value for field, value in fields.items()}
    composite = {"name": "a", "schedulingPolicy": {}}
    workload = WORKLOAD.create({**changes, "spec.compositePodGroupTemplates": [composite]})
    assert workload.document["spec"] == WORKLOAD_SPEC


# A kind, what changes in it, and what is told.
CHANGES: Final[dict[str, tuple[OldKind, Changes, list[str]]]] = {
    "labels": (POD_GROUP, {"metadata.labels": {"a": "b"}}, []),
    "the number of pods": (POD_GROUP, {f"{POLICY}.gang.minCount": 4}, []),
    "another policy": (
        POD_GROUP,
        {POLICY: {"basic": {}}},
        [
            f"{POLICY}.basic: Invalid value: {{}}: field is immutable",
            f"{POLICY}.gang: Invalid value: null: field cannot be cleared once set",
        ],
    ),
    "another workload": (POD_GROUP, {"spec.workloadRef": None}, ["spec.workloadRef: Invalid value: "]),
    "another mode": (
        POD_GROUP,
        {"spec.disruptionMode": {"all": {}}},
        ["spec.disruptionMode: Invalid value: "],
    ),
    "a priority": (POD_GROUP, {"spec.priority": 1}, ["spec.priority: Invalid value: 1: field is immutable"]),
    "the number of pods in a template": (WORKLOAD, {f"{TEMPLATES}.0.schedulingPolicy.gang.minCount": 4}, []),
    "the policy of a template": (
        WORKLOAD,
        {f"{TEMPLATES}.1.schedulingPolicy": GANG},
        [
            f"{TEMPLATES}[1].schedulingPolicy.basic: Invalid value: null: field is immutable",
            f"{TEMPLATES}[1].schedulingPolicy.gang: Invalid value: null: field cannot be set once created",
        ],
    ),
    "a template more": (
        WORKLOAD,
        {TEMPLATES: [*WORKLOAD_SPEC["podGroupTemplates"], {**TEMPLATE, "name": "more"}]},
        [f"{TEMPLATES}[2]: Forbidden: item may not be added"],
    ),
    "a template less": (
        WORKLOAD,
        {TEMPLATES: [TEMPLATE]},
        [f"{TEMPLATES}: Forbidden: item may not be removed"],
    ),
    "another controller": (
        WORKLOAD,
        {"spec.controllerRef.name": "b"},
        ["spec.controllerRef: Invalid value: "],
    ),
}


@pytest.mark.parametrize(("kind", "changes", "beginnings"), CHANGES.values(), ids=CHANGES)
def test_changes(kind: OldKind, changes: Changes, beginnings: list[str]) -> None:
    assert_told(kind.update(changes).texts, beginnings)


def test_the_status_is_the_schedulers() -> None:
    status: Document = {"conditions": [test_pod_groups.condition()]}
    assert POD_GROUP.create({"status": status}).document["status"] == {}
    written = POD_GROUP.update({"status": status, "spec": {}}, "status")
    assert written.texts == []
    assert written.document["spec"] == POD_GROUP.create().document["spec"]


@pytest.mark.parametrize("kind", [POD_GROUP, WORKLOAD], ids=["PodGroup", "Workload"])
def test_v1alpha3_is_the_same(kind: OldKind) -> None:
    alpha = OldKind(f"{kind.resource.resource}.{GROUP}", "v1alpha3", 37, {"spec": kind.valid["spec"]})
    assert alpha.create().texts == []
    assert alpha.current()["spec"] == kind.completed()["spec"]
    assert alpha.from_hub(alpha.current()) == alpha.completed()
    assert alpha.resource.storage_version == kind.resource.storage_version == "v1beta1"
    for each in (alpha, kind):
        document, served = each.completed(), each.resource
        again = {**document, **served.from_protobuf(served.to_protobuf(document))}
        assert without_nulls(again) == without_nulls(document)


def read(document: Document) -> Any:
    """What 1.37 makes of an object that an older release has stored."""
    value = encode(document, head_of(document["apiVersion"], document["kind"]))
    decode = ObjectDecoder(OwnWrites(), catalogue(37).other_version)
    return without_nulls(decode(Stored("/registry/key", value, 1, 7)).document())


def test_objects_of_older_releases_are_read() -> None:
    group = read(test_pod_groups.POD_GROUP.completed())
    assert (group["apiVersion"], group["spec"]) == (f"{GROUP}/v1beta1", POD_GROUP.completed()["spec"])
    workload = read(test_pod_groups.WORKLOAD.completed())
    assert (workload["apiVersion"], workload["spec"]) == (f"{GROUP}/v1beta1", WORKLOAD_SPEC)
    groups = [{"name": "workers", "policy": GANG}]
    oldest = OldKind(f"workloads.{GROUP}", "v1alpha1", 35, {"spec": {"podGroups": groups}})
    assert read(oldest.completed())["spec"] == {"podGroupTemplates": [TEMPLATE]}
