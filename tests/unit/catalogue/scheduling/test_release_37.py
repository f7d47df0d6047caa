"""PodGroups and Workloads of 1.37. Source: k8s.io/api/scheduling/v1beta1; rows H01, H09, S01, S03."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document
from apiserver.registry.stored_object import encode, head_of
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.registry.transactions import OwnWrites
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.validation.checks import without_nulls
from apiserver.storage.interface import Stored
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, catalogue
from tests.unit.catalogue.scheduling import test_pod_groups
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

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
        ['spec.disruptionMode: Invalid value: "{single, all}": must specify exactly one of: `single`'],
    ),
    "a priority that is too high": (
        POD_GROUP,
        {"spec.priority": 1_000_000_001, "spec.priorityClassName": "A"},
        [
            'spec.priorityClassName: Invalid value: "A"',
            "spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000",
        ],
    ),
    "a preemption policy that is none": (
        POD_GROUP,
        {"spec.preemptionPolicy": "Always"},
        ['spec.preemptionPolicy: Unsupported value: "Always": supported values: "Never", "Preempt'],
    ),
    "two topologies": (
        POD_GROUP,
        {"spec.schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        ["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"],
    ),
    "a topology that no label has": (
        POD_GROUP,
        {"spec.schedulingConstraints": {"topology": [{"key": "a-"}]}},
        ['spec.schedulingConstraints.topology[0].key: Invalid value: "a-"'],
    ),
    "a parent that no group can be": (
        POD_GROUP,
        {"spec.parentCompositePodGroupName": ""},
        ['spec.parentCompositePodGroupName: Invalid value: ""'],
    ),
    "templates of different priorities": (
        WORKLOAD,
        {f"{TEMPLATES}.0.priority": 1},
        ["spec: Invalid value: null: detected multiple priority configurations"],
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


@pytest.mark.parametrize(("kind", "changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(kind: OldKind, changes: Changes, beginnings: list[str]) -> None:
    assert kind.create().texts == []
    assert_texts_begin(kind.create(changes).texts, beginnings)


def test_pods_of_a_group_are_disrupted_one_by_one() -> None:
    assert POD_GROUP.create().document["spec"] == {**GROUP_SPEC, "disruptionMode": {"single": {}}}
    assert without_nulls(WORKLOAD.create().document["spec"]) == WORKLOAD_SPEC


# What groups and their templates have if some features are on; the last one is not here.
FEATURES: Final[dict[str, Any]] = {
    "preemptionPolicy": "Never",
    "schedulingConstraints": {"topology": [{"key": "rack"}]},
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
}
COMPOSITE: Final = {
    "name": "main",
    "schedulingPolicy": {"gang": {"minGroupCount": 1}},
    "podGroupTemplates": [TEMPLATE],
}


def with_features(path: str, **more: Any) -> Changes:
    return {f"{path}.{field}": value for field, value in {**FEATURES, **more}.items()}


def with_gates(kind: OldKind, *gates: str) -> OldKind:
    """The same kind where some of the gates are on that add fields, and no other."""
    on = FeatureGates(37, dict.fromkeys(("GenericWorkload", *gates), True))
    catalogue = Catalogue(Brand(), BuiltinSchemas((1, 37)), release=EmulatedRelease.of(37), gates=on)
    found = catalogue.resources(RuntimeConfig({"api/all": True})).find(
        GROUP, "v1beta1", kind.resource.resource
    )
    assert found is not None
    copied = copy.copy(kind)
    copied.resource = found
    return copied


def test_features_that_are_off_add_no_fields() -> None:
    """Topology, preemption, groups of groups. Claims of groups are not here in any case."""
    kind = with_gates(POD_GROUP)
    group = kind.create(with_features("spec", parentCompositePodGroupName="a"))
    assert group.texts == []
    assert group.document["spec"] == POD_GROUP.create().document["spec"]
    kind = with_gates(WORKLOAD)
    changes = with_features(f"{TEMPLATES}.0")
    workload = kind.create({**changes, "spec.compositePodGroupTemplates": [COMPOSITE]})
    assert workload.texts == []
    assert without_nulls(workload.document["spec"]) == WORKLOAD_SPEC


def test_features_that_are_on_add_fields() -> None:
    kept = {field: value for field, value in FEATURES.items() if field != "resourceClaims"}
    group = POD_GROUP.create(with_features("spec", parentCompositePodGroupName="a"))
    assert group.texts == []
    assert group.document["spec"].items() >= {**kept, "parentCompositePodGroupName": "a"}.items()
    template = WORKLOAD.create(with_features(f"{TEMPLATES}.0")).document["spec"]["podGroupTemplates"][0]
    assert template == {**TEMPLATE, **kept}


def test_what_is_used_stays_when_its_feature_is_off() -> None:
    """KEP-4330: as every field that is dropped."""
    used = with_features("spec", parentCompositePodGroupName="a")
    stored, off = POD_GROUP.create(used).document, with_gates(POD_GROUP)
    changed = copy.deepcopy(stored)
    changed["metadata"]["labels"] = {"a": "b"}
    rules = off.strategy.update
    rules.prepare(changed, stored)
    assert changed["spec"] == stored["spec"]
    stored = WORKLOAD.create(with_features(f"{TEMPLATES}.0")).document
    changed, off = copy.deepcopy(stored), with_gates(WORKLOAD)
    changed["spec"]["podGroupTemplates"][1]["preemptionPolicy"] = "Never"
    off.strategy.update.prepare(changed, stored)
    assert [each.get("preemptionPolicy") for each in changed["spec"]["podGroupTemplates"]] == ["Never"] * 2


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
    "another parent": (
        POD_GROUP,
        {"spec.parentCompositePodGroupName": "a"},
        ['spec.parentCompositePodGroupName: Invalid value: "a": field is immutable'],
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
    assert_texts_begin(kind.update(changes).texts, beginnings)


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


# The tree of a Workload's templates, and what is told of it.
TREE: Final = "spec.compositePodGroupTemplates"
TREES: Final[dict[str, tuple[list[Document], list[str]]]] = {
    "one level": ([COMPOSITE], []),
    "three levels": (
        [
            {
                **COMPOSITE,
                "podGroupTemplates": [],
                "compositePodGroupTemplates": [
                    {
                        **COMPOSITE,
                        "name": "b",
                        "podGroupTemplates": [],
                        "compositePodGroupTemplates": [{**COMPOSITE, "name": "c"}],
                    }
                ],
            }
        ],
        [],
    ),
    "four levels": (
        [
            {
                **COMPOSITE,
                "compositePodGroupTemplates": [
                    {
                        **COMPOSITE,
                        "name": "b",
                        "compositePodGroupTemplates": [
                            {
                                **COMPOSITE,
                                "name": "c",
                                "compositePodGroupTemplates": [{**COMPOSITE, "name": "d"}],
                            }
                        ],
                    }
                ],
            }
        ],
        [f"{TREE}[0]: Invalid value: [{{"],
    ),
    "too many in one level": (
        [{**COMPOSITE, "podGroupTemplates": [{**TEMPLATE, "name": f"t{each}"} for each in range(9)]}],
        [f"{TREE}[0].podGroupTemplates: Too many: 9: must have at most 8 items"],
    ),
    "a name twice in a list": (
        [COMPOSITE, COMPOSITE],
        [
            f'{TREE}[1]: Duplicate value: "main"',
            f'{TREE}[1].podGroupTemplates[0].name: Duplicate value: "workers"',
        ],
    ),
    "a name twice in the tree": (
        [{**COMPOSITE, "podGroupTemplates": [{**TEMPLATE, "name": "main"}]}],
        [f'{TREE}[0].podGroupTemplates[0].name: Duplicate value: "main"'],
    ),
    "no groups": (
        [{**COMPOSITE, "podGroupTemplates": []}],
        [f'{TREE}[0]: Invalid value: "main": must have at least one child PodGroupTemplate or '],
    ),
    "different priorities": (
        [{**COMPOSITE, "priority": 1}],
        ["spec: Invalid value: null: all priority and priorityClassName values must be identical, detec"],
    ),
    "no number of groups": (
        [{**COMPOSITE, "schedulingPolicy": {"gang": {"minGroupCount": 0}}}],
        [f"{TREE}[0].schedulingPolicy.gang.minGroupCount: Required value"],
    ),
    "a group inside without a policy": (
        [{**COMPOSITE, "podGroupTemplates": [{"name": "a"}]}],
        [f"{TREE}[0].podGroupTemplates[0].schedulingPolicy: Invalid value: "],
    ),
}


@pytest.mark.parametrize(("tree", "beginnings"), TREES.values(), ids=TREES)
def test_trees_of_templates(tree: list[Document], beginnings: list[str]) -> None:
    assert_texts_begin(WORKLOAD.create({TEMPLATES: None, TREE: tree}).texts, beginnings)


# What changes in a tree, and what is told.
TREE_CHANGES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "the number of groups": ({f"{TREE}.0.schedulingPolicy.gang.minGroupCount": 2}, []),
    "the number of pods": ({f"{TREE}.0.podGroupTemplates.0.schedulingPolicy.gang.minCount": 2}, []),
    "a mode": ({f"{TREE}.0.disruptionMode": {"all": {}}}, [f"{TREE}[0].disruptionMode: Invalid value: "]),
    "a topology": (
        {f"{TREE}.0.schedulingConstraints": {"topology": [{"key": "rack"}]}},
        [f"{TREE}[0].schedulingConstraints: Invalid value: "],
    ),
    "a group more": (
        {f"{TREE}.0.podGroupTemplates": [TEMPLATE, {**TEMPLATE, "name": "more"}]},
        [f"{TREE}[0].podGroupTemplates[1]: Forbidden: item may not be added"],
    ),
    "another group": (
        {f"{TREE}.0.podGroupTemplates": [{**TEMPLATE, "name": "other"}]},
        [
            f"{TREE}[0].podGroupTemplates[0]: Forbidden: item may not be added",
            f"{TREE}[0].podGroupTemplates: Forbidden: item may not be removed",
        ],
    ),
    "plain groups beside the tree": (
        {TEMPLATES: [{**TEMPLATE, "name": "plain"}]},
        [
            f"{TEMPLATES}[0]: Forbidden: item may not be added",
            'spec: Invalid value: "{podGroupTemplates, compositePodGroupTemplates}": must specify exa',
        ],
    ),
}


@pytest.mark.parametrize(("changes", "beginnings"), TREE_CHANGES.values(), ids=TREE_CHANGES)
def test_changes_of_trees(changes: Changes, beginnings: list[str]) -> None:
    stored: Changes = {TEMPLATES: None, TREE: [COMPOSITE]}
    assert_texts_begin(WORKLOAD.update(changes, old=stored).texts, beginnings)


def read(document: Document) -> Any:
    """What 1.37 makes of an object that an older release has stored."""
    value = encode(document, head_of(document["apiVersion"], document["kind"]))
    decode = StoredVersionDecoder(OwnWrites(), catalogue(37))
    key = f"/registry/{GROUP}/{document['kind'].lower()}s/ns/a"
    return without_nulls(decode(Stored(key, value, 1, 7)).document())


def test_objects_of_older_releases_are_read() -> None:
    group = read(test_pod_groups.POD_GROUP.completed())
    assert (group["apiVersion"], group["spec"]) == (f"{GROUP}/v1beta1", POD_GROUP.completed()["spec"])
    workload = read(test_pod_groups.WORKLOAD.completed())
    assert (workload["apiVersion"], workload["spec"]) == (f"{GROUP}/v1beta1", WORKLOAD_SPEC)
    groups = [{"name": "workers", "policy": GANG}]
    oldest = OldKind(f"workloads.{GROUP}", "v1alpha1", 35, {"spec": {"podGroups": groups}})
    assert read(oldest.completed())["spec"] == {"podGroupTemplates": [TEMPLATE]}
