"""Claims before there were devices, in v1alpha1 and v1alpha2. Rows H01, H09, S03.

Source: pkg/apis/resource/validation (releases 1.26 and 1.30).
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.registry.stored_object import DamagedObject, encode, head_of
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.registry.transactions import OwnWrites
from apiserver.storage.interface import Stored
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, catalogue
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

GROUP: Final = "resource.k8s.io"
SPEC: Final = {"resourceClassName": "gpu", "parametersRef": {"apiGroup": "a.b", "kind": "K", "name": "n"}}
POD: Final = {"resource": "pods", "name": "web", "uid": "1"}
HANDLE: Final = {"driverName": "a.b", "data": "x"}


def kind(resource: str, valid: dict[str, Any], version: str = "v1alpha2", minor: int = 30) -> OldKind:
    return OldKind(f"{resource}.{GROUP}", version, minor, valid)


CLAIM: Final = kind("resourceclaims", {"spec": SPEC})
TEMPLATE: Final = kind("resourceclaimtemplates", {"spec": {"spec": SPEC}})
CLASS: Final = kind("resourceclasses", {"driverName": "a.b"})
SCHEDULING: Final = kind("podschedulingcontexts", {"spec": {"potentialNodes": ["a", "b"]}})
OLD_CLAIM: Final = kind("resourceclaims", {"spec": SPEC}, "v1alpha1", 26)
SLICE: Final = kind(
    "resourceslices",
    {
        "nodeName": "n",
        "driverName": "a.b",
        "namedResources": {"instances": [{"name": "gpu-0", "attributes": [{"name": "size", "int": 1}]}]},
    },
)
REQUESTS: Final = [{"driverName": "a.b", "requests": [{"namedResources": {"selector": "true"}}]}]
CLAIM_PARAMETERS: Final = kind("resourceclaimparameters", {"driverRequests": REQUESTS})
CLASS_PARAMETERS: Final = kind(
    "resourceclassparameters",
    {
        "generatedFrom": {"apiGroup": "a.b", "kind": "K", "name": "n", "namespace": "default"},
        "filters": [{"driverName": "a.b", "namedResources": {"selector": "true"}}],
        "vendorParameters": [{"driverName": "a.b", "parameters": {"a": 1}}],
    },
)
KINDS: Final = {
    "claims": CLAIM,
    "templates": TEMPLATE,
    "classes": CLASS,
    "pod scheduling": SCHEDULING,
    "slices": SLICE,
    "parameters of claims": CLAIM_PARAMETERS,
    "parameters of classes": CLASS_PARAMETERS,
    "claims of 1.26": OLD_CLAIM,
    "claims of 1.28": kind("resourceclaims", {"spec": SPEC}, minor=28),
    "templates of 1.26": kind("resourceclaimtemplates", {"spec": {"spec": SPEC}}, "v1alpha1", 26),
    "classes of 1.26": kind("resourceclasses", {"driverName": "a.b"}, "v1alpha1", 26),
    "pod scheduling of 1.26": kind("podschedulings", {"spec": {"selectedNode": "a"}}, "v1alpha1", 26),
    "pod scheduling of 1.31": kind("podschedulingcontexts", {"spec": {}}, "v1alpha3", 31),
}


@pytest.mark.parametrize("old", KINDS.values(), ids=KINDS)
def test_valid(old: OldKind) -> None:
    created = old.create()
    assert created.texts == []
    assert {**old.completed(), **created.document}.keys() == created.document.keys()
    assert old.resource.has_protobuf


def test_a_claim_waits_for_who_uses_it_first() -> None:
    for old in (CLAIM, OLD_CLAIM):
        document = old.create({"status": {"driverName": "a.b"}}).document
        assert document["spec"] == {**SPEC, "allocationMode": "WaitForFirstConsumer"}
        assert document["status"] == {}
    assert TEMPLATE.create().document["spec"]["spec"]["allocationMode"] == "WaitForFirstConsumer"


INVALID: Final[dict[str, tuple[OldKind, Changes, list[str]]]] = {
    "no class": (CLAIM, {"spec.resourceClassName": ""}, ['spec.resourceClassName: Invalid value: ""']),
    "another mode": (
        TEMPLATE,
        {"spec.spec.allocationMode": "Never"},
        ['spec.spec.allocationMode: Unsupported value: "Never": supported values: "Immediate", "Wait'],
    ),
    "parameters of nothing": (
        CLAIM,
        {"spec.parametersRef": {"kind": "", "name": ""}},
        ["spec.parametersRef.kind: Required value", "spec.parametersRef.name: Required value"],
    ),
    "labels of claims": (
        TEMPLATE,
        {"spec.metadata": {"labels": {"a b": ""}}},
        ["spec.metadata.labels: Invalid value"],
    ),
    "no driver": (CLASS, {"driverName": ""}, ["driverName: Required value"]),
    "parameters in no namespace": (
        CLASS,
        {"parametersRef": {"kind": "K", "name": "n", "namespace": "A"}},
        ['parametersRef.namespace: Invalid value: "A"'],
    ),
    "no nodes": (
        CLASS,
        {"suitableNodes": {"nodeSelectorTerms": []}},
        ["suitableNodes.nodeSelectorTerms: Required value"],
    ),
    "a node twice": (
        SCHEDULING,
        {"spec.potentialNodes": ["a", "a", "B"]},
        ['spec.potentialNodes[1]: Duplicate value: "a"', 'spec.potentialNodes[2]: Invalid value: "B"'],
    ),
    "too many nodes": (
        SCHEDULING,
        {"spec.potentialNodes": [f"n{index}" for index in range(129)]},
        ["spec.potentialNodes: Too long: may not be longer than 128"],
    ),
    "too many nodes, one of them twice": (
        SCHEDULING,
        {"spec.potentialNodes": ["a", *(f"n{index}" for index in range(127)), "a"]},
        [
            'spec.potentialNodes[128]: Duplicate value: "a"',
            "spec.potentialNodes: Too long: may not be longer than 128",
        ],
    ),
    "no resources": (
        SLICE,
        {"namedResources": None},
        ["<nil>: Required value: exactly one structured model field must be set"],
    ),
    "an instance twice": (
        SLICE,
        {"namedResources.instances": [{"name": "a"}, {"name": "a"}]},
        ['namedResources.instances[1].name: Duplicate value: "a"'],
    ),
    "attributes without one value": (
        SLICE,
        {"namedResources.instances.0.attributes": [{"name": "a"}, {"name": "b", "int": 1, "bool": True}]},
        [
            "namedResources.instances[0].attributes[0]: Required value: exactly one value must be set",
            "namedResources.instances[0].attributes[1]: Invalid value: ",
        ],
    ),
    "no version": (
        SLICE,
        {"namedResources.instances.0.attributes": [{"name": "a", "version": "1.0"}]},
        ['namedResources.instances[0].attributes[0].version: Invalid value: "1.0"'],
    ),
    "no requests": (
        CLAIM_PARAMETERS,
        {"driverRequests.0.requests": []},
        ["driverRequests[0].requests: Required value: empty entries with no requests are not allowed"],
    ),
    "a driver twice": (
        CLAIM_PARAMETERS,
        {"driverRequests": REQUESTS * 2},
        ['driverRequests[1].driverName: Duplicate value: "a.b"'],
    ),
    "a driver of filters twice": (
        CLASS_PARAMETERS,
        {"filters": [{"driverName": "a.b", "namedResources": {"selector": "true"}}] * 2},
        ['filters[1].driverName: Duplicate value: "a.b"'],
    ),
    "a driver of a vendor twice": (
        CLASS_PARAMETERS,
        {"vendorParameters": [{"driverName": "a.b"}] * 2},
        ['vendorParameters[1].driverName: Duplicate value: "a.b"'],
    ),
    "an attribute twice": (
        SLICE,
        {"namedResources.instances.0.attributes": [{"name": "a", "int": 1}, {"name": "a", "int": 2}]},
        ['namedResources.instances[0].attributes[1].name: Duplicate value: "a"'],
    ),
    "no expression": (
        CLASS_PARAMETERS,
        {"filters.0.namedResources.selector": ""},
        ["filters[0].namedResources.selector: Required value"],
    ),
}


@pytest.mark.parametrize(("old", "changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(old: OldKind, changes: Changes, beginnings: list[str]) -> None:
    assert_texts_begin(old.create(changes).texts, beginnings)


def test_what_a_claim_asks_for_stays() -> None:
    assert_texts_begin(CLAIM.update({"spec.resourceClassName": "b"}).texts, ["spec: Invalid value"])
    assert_texts_begin(TEMPLATE.update({"spec.spec.resourceClassName": "b"}).texts, ["spec: Invalid value"])
    changes = {"nodeName": "m", "driverName": "c.d"}
    assert_texts_begin(SLICE.update(changes).texts, ["nodeName: Invalid value", "driverName: Invalid value"])
    assert CLASS.update({"driverName": "c.d"}).texts == []
    assert CLAIM.update({"status": {"driverName": "a.b"}}).document["status"] == {}


ALLOCATED: Final = {"driverName": "a.b", "allocation": {"resourceHandles": [HANDLE], "shareable": True}}
FORBIDDEN: Final = "status.reservedFor: Forbidden: "
# Status of a claim, before and after, and what is wrong with it.
STATUSES: Final[dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]]] = {
    "allocated": ({}, ALLOCATED, []),
    "reserved": (ALLOCATED, {**ALLOCATED, "reservedFor": [POD, {**POD, "uid": "2"}]}, []),
    "given up": ({**ALLOCATED, "deallocationRequested": True}, {}, []),
    "by nobody": (
        {},
        {"allocation": {}},
        ["status.driverName: Required value: must be specified when `allocation` is set"],
    ),
    "reserved without a device": (
        {},
        {"reservedFor": [POD]},
        [f"{FORBIDDEN}may not be specified when `allocated` is not set"],
    ),
    "not to be shared": (
        {},
        {"driverName": "a.b", "allocation": {}, "reservedFor": [POD, {**POD, "uid": "2"}]},
        [f"{FORBIDDEN}may not be reserved more than once"],
    ),
    "reserved twice for one": (
        ALLOCATED,
        {**ALLOCATED, "reservedFor": [POD, POD]},
        ['status.reservedFor[1].uid: Duplicate value: "1"'],
    ),
    "reserved for nobody": (
        ALLOCATED,
        {**ALLOCATED, "reservedFor": [{"resource": "", "name": "", "uid": ""}]},
        [f"status.reservedFor[0].{field}: Required value" for field in ("resource", "name", "uid")],
    ),
    "another device": (
        ALLOCATED,
        {**ALLOCATED, "allocation": {"shareable": True}},
        ["status.allocation: Invalid value"],
    ),
    "given up while in use": (
        {**ALLOCATED, "reservedFor": [POD]},
        {**ALLOCATED, "reservedFor": [POD], "deallocationRequested": True},
        ["status.deallocationRequested: Forbidden: deallocation cannot be requested while `reservedFor` is"],
    ),
    "given up for nothing": (
        {},
        {"deallocationRequested": True},
        ["status: Forbidden: `allocation` must be set when `deallocationRequested` is set"],
    ),
    "taken back": (
        {**ALLOCATED, "deallocationRequested": True},
        ALLOCATED,
        ["status.deallocationRequested: Forbidden: may not be cleared when `allocation` is set"],
    ),
    "reserved while it is given up": (
        {**ALLOCATED, "deallocationRequested": True},
        {**ALLOCATED, "deallocationRequested": True, "reservedFor": [POD]},
        [f"{FORBIDDEN}new entries may not be added while `deallocationRequested` or"],
    ),
    "too much to tell": (
        {},
        {"driverName": "a.b", "allocation": {"resourceHandles": [{**HANDLE, "data": "x" * 16_385}]}},
        ["status.allocation.resourceHandles[0].data: Too long: may not be longer than 16384"],
    ),
    "too many devices": (
        {},
        {"driverName": "a.b", "allocation": {"resourceHandles": [HANDLE] * 33}},
        ["status.allocation.resourceHandles: Too long: may not be longer than 32"],
    ),
    "reserved for too many, one of them twice": (
        ALLOCATED,
        {**ALLOCATED, "reservedFor": [{**POD, "uid": str(i % 33)} for i in range(34)]},
        [
            'status.reservedFor[33].uid: Duplicate value: "0"',
            "status.reservedFor: Too long: may not be longer than 32",
        ],
    ),
    "reserved twice for nobody": (
        ALLOCATED,
        {**ALLOCATED, "reservedFor": [{"uid": "1"}] * 2},
        [
            "status.reservedFor[0].resource: Required value",
            "status.reservedFor[0].name: Required value",
            'status.reservedFor[1].uid: Duplicate value: "1"',
        ],
    ),
    "told in two ways": (
        {},
        {
            "driverName": "a.b",
            "allocation": {"resourceHandles": [{**HANDLE, "structuredData": {"results": [{}]}}]},
        },
        [
            "status.allocation.resourceHandles[0].structuredData.results[0]: Required value: exactly one st",
            "status.allocation.resourceHandles[0]: Invalid value: null: data and structuredData are mutually",
        ],
    ),
}


@pytest.mark.parametrize(("before", "after", "beginnings"), STATUSES.values(), ids=STATUSES)
def test_the_status_of_a_claim(before: Document, after: Document, beginnings: list[str]) -> None:
    stored = CLAIM.create().document
    stored["status"] = before
    update = CLAIM.resource.subresources["status"].update
    assert update is not None
    new = {**stored, "status": after}
    update.prepare(new, stored)
    assert_texts_begin([str(error) for error in update.validate(new, stored)], beginnings)


def test_a_claim_of_1_26_has_one_handle() -> None:
    update = OLD_CLAIM.resource.subresources["status"].update
    assert update is not None
    stored = OLD_CLAIM.create().document
    for size, beginnings in ((16_384, []), (16_385, ["status.allocation.resourceHandle: Too long: may not"])):
        status = {"driverName": "a.b", "allocation": {"resourceHandle": "x" * size}}
        errors = update.validate({**stored, "status": status}, stored)
        assert_texts_begin([str(error) for error in errors], beginnings)


def test_the_status_of_pod_scheduling() -> None:
    update = SCHEDULING.resource.subresources["status"].update
    assert update is not None
    stored = SCHEDULING.create().document
    claims = [{"name": "a", "unsuitableNodes": ["n", "n"]}, {"name": "a"}]
    errors = update.validate({**stored, "status": {"resourceClaims": claims}}, stored)
    assert_texts_begin(
        [str(error) for error in errors],
        [
            'status.claims[0].unsuitableNodes[1]: Duplicate value: "n"',
            'status.claims[1]: Duplicate value: "a"',
        ],
    )


CELLS: Final = {
    "claims": (CLAIM, ["gpu", "WaitForFirstConsumer", "pending"]),
    "templates": (TEMPLATE, ["gpu", "WaitForFirstConsumer"]),
    "classes": (CLASS, ["a.b"]),
    "slices": (SLICE, ["n", "a.b"]),
    "parameters": (CLASS_PARAMETERS, ["K.a.b n"]),
    "parameters that were made from nothing": (CLAIM_PARAMETERS, [""]),
}


@pytest.mark.parametrize(("old", "cells"), CELLS.values(), ids=CELLS)
def test_columns(old: OldKind, cells: list[str]) -> None:
    assert [*old.cells().values()][1:-1] == cells


def test_slices_are_selected_by_node_and_driver() -> None:
    document = SLICE.completed()
    found = {name: getter(document) for name, getter in SLICE.resource.selectable_fields.items()}
    assert found["nodeName"] == "n"
    assert found["driverName"] == "a.b"


# A version, the kind in it, and a release that has none of that form.
UNREADABLE: Final = {
    "before devices": ("v1alpha2", "ResourceClaim", 36),
    "long before devices": ("v1alpha1", "ResourceClaim", 34),
    "long before devices, soon after": ("v1alpha1", "ResourceClaimTemplate", 27),
    "devices": ("v1", "ResourceClaim", 30),
}


@pytest.mark.parametrize(("version", "name", "minor"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_stored_in_one_form_is_not_read_in_another(version: str, name: str, minor: int) -> None:
    """As in Kubernetes: such an object is damaged, and not taken for one of today."""
    value = encode({"metadata": {"name": "a"}, "spec": SPEC}, head_of(f"{GROUP}/{version}", name))
    decode = StoredVersionDecoder(OwnWrites(), catalogue(minor))
    found = decode(Stored("/registry/key", value, 1, 7))
    assert isinstance(found, DamagedObject)
    assert f'no kind "{name}" is registered for version "{GROUP}/{version}"' in found.cause


def test_pod_scheduling_of_1_30_is_read_at_1_31() -> None:
    value = encode({"metadata": {"name": "a"}}, head_of(f"{GROUP}/v1alpha2", "PodSchedulingContext"))
    decode = StoredVersionDecoder(OwnWrites(), catalogue(31))
    stored = Stored(f"/registry/{GROUP}/podschedulingcontexts/ns/a", value, 1, 7)
    assert decode(stored).document()["apiVersion"] == f"{GROUP}/v1alpha3"
