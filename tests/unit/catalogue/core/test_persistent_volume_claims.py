"""PersistentVolumeClaims.

Source: pkg/apis/core/validation, ValidatePersistentVolumeClaim; pkg/registry/core/persistentvolumeclaim.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.served_kinds import Changes, ServedKind, assert_texts_begin, least

CLAIM: Final = ServedKind("persistentvolumeclaims")
PVC: Final = least(
    "PersistentVolumeClaim",
    spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
)
SNAPSHOT: Final = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
SOURCES: Final[dict[str, tuple[Changes, Any, Any]]] = {
    "none": ({}, None, None),
    "a snapshot, told in the old way": ({"spec.dataSource": SNAPSHOT}, SNAPSHOT, SNAPSHOT),
    "in the new way": ({"spec.dataSourceRef": SNAPSHOT}, SNAPSHOT, SNAPSHOT),
    "something unknown, in the old way": ({"spec.dataSource": {"kind": "X", "name": "x"}}, None, None),
    "of another namespace": ({"spec.dataSourceRef": {**SNAPSHOT, "namespace": "other"}}, None, None),
}


@pytest.mark.parametrize(("changes", "source", "reference"), SOURCES.values(), ids=SOURCES)
def test_the_data_sources_of_a_new_claim(changes: Changes, source: Any, reference: Any) -> None:
    document, errors = CLAIM.created(PVC, {**changes, "status": {"phase": "Bound"}})
    assert errors == []
    assert document["status"] == {"phase": "Pending"}
    assert document["spec"]["volumeMode"] == "Filesystem"
    assert (document["spec"].get("dataSource"), document["spec"].get("dataSourceRef")) == (source, reference)


CLAIMS: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a claim is used somehow": (
        {"spec.accessModes": None},
        ["spec.accessModes: Required value: at least 1 access mode is required"],
    ),
    "a claim is for something": ({"spec.resources": None}, ["spec.resources[storage]: Required value"]),
    "for more than nothing": (
        {"spec.resources.requests.storage": "0"},
        ['spec.resources[storage]: Invalid value: "0": must be greater than zero'],
    ),
    "a class has a name": (
        {"spec.storageClassName": "A"},
        ['spec.storageClassName: Invalid value: "A": a lowercase RFC 1123 subdomain'],
    ),
    "the two ways agree": (
        {"spec.dataSource": SNAPSHOT, "spec.dataSourceRef": {**SNAPSHOT, "name": "t"}},
        ["spec: Invalid value: {}: must match dataSourceRef"],
    ),
    "a source without a group is a claim": (
        {"spec.dataSourceRef": {"kind": "X", "name": "x"}},
        [
            f"spec.{field}: Invalid value: \"X\": must be 'PersistentVolumeClaim' when referencing "
            "the default "
            "apiGroup"
            for field in ("dataSource", "dataSourceRef")
        ],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), CLAIMS.values(), ids=CLAIMS)
def test_errors_in_claims(changes: Changes, texts: list[str]) -> None:
    assert_texts_begin(CLAIM.created(PVC, changes).texts, texts)


def bound(**status: Any) -> Document:
    document = CLAIM.created(
        PVC, {"spec.storageClassName": "gold", "spec.volumeAttributesClassName": "a"}
    ).document
    document["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}, **status}
    document["spec"]["volumeName"] = "v"
    return document


_IMMUTABLE: Final = (
    "spec: Forbidden: spec is immutable after creation except resources.requests and "
    "volumeAttributesClassName "
    "for bound claims"
)
SIZE: Final = "spec.resources.requests.storage"
CLAIM_CHANGES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "larger": ({SIZE: "2Gi"}, []),
    "smaller than what it has": (
        {SIZE: "512Mi"},
        [f"{SIZE}: Forbidden: field can not be less than status.capacity"],
    ),
    "of another class": ({"spec.storageClassName": "iron"}, [_IMMUTABLE]),
    "of another volume": ({"spec.volumeName": "w"}, [_IMMUTABLE]),
    "with other attributes": ({"spec.volumeAttributesClassName": "b"}, []),
    "with none, while none were applied": ({"spec.volumeAttributesClassName": None}, []),
    "with other parts": (
        {"spec.resources.requests": {"cpu": "1"}},
        [
            "spec.resources[storage]: Required value",
            _IMMUTABLE,
            f"{SIZE}: Forbidden: field can not be less than status.capacity",
        ],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), CLAIM_CHANGES.values(), ids=CLAIM_CHANGES)
def test_a_claim_that_is_bound_can_grow(changes: Changes, texts: list[str]) -> None:
    assert CLAIM.updated(bound(), changes).texts == texts


APPLIED: Final = {
    None: "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil",
    "": "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil",
}


@pytest.mark.parametrize("name", APPLIED)
def test_attributes_that_were_applied_are_not_taken_away(name: str | None) -> None:
    changes = {"spec.volumeAttributesClassName": name}
    assert CLAIM.updated(bound(currentVolumeAttributesClassName="a"), changes).texts == [
        f"spec.volumeAttributesClassName: Forbidden: {APPLIED[name]}"
    ]


def test_a_stored_claim_that_breaks_a_newer_rule_may_change() -> None:
    old = bound()
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["_wrong_"]}]}
    old["spec"] |= {"selector": selector, "dataSource": {"apiGroup": "Wrong!", "kind": "A", "name": "a"}}
    old["spec"]["dataSourceRef"] = old["spec"]["dataSource"]
    assert CLAIM.updated(old, {SIZE: "2Gi"}).errors == []
    assert len(CLAIM.created(old).errors) == 3


def test_a_claim_that_waits_gets_a_volume_and_a_class_and_no_other_size() -> None:
    waiting = CLAIM.created(PVC).document
    assert CLAIM.updated(waiting, {"spec.volumeName": "v", "spec.storageClassName": "gold"}).errors == []
    assert CLAIM.updated(waiting, {SIZE: "2Gi"}).texts == [_IMMUTABLE]


def test_growth_that_failed_can_be_taken_back_in_part() -> None:
    growing = bound()
    growing["spec"]["resources"]["requests"]["storage"] = "4Gi"
    assert CLAIM.updated(growing, {SIZE: "2Gi"}).errors == []
    assert [error.field for error in CLAIM.updated(growing, {SIZE: "1Gi"}).errors] == [SIZE]
    before = ServedKind("persistentvolumeclaims", minor=33, gates=("RecoverVolumeExpansionFailure=false",))
    assert before.updated(growing, {SIZE: "2Gi"}).texts == [
        f"{SIZE}: Forbidden: field can not be less than previous value"
    ]


STATUS: Final[dict[str, tuple[Changes, list[str]]]] = {
    "what it has": ({"status.capacity": {"storage": "2Gi"}}, []),
    "less than nothing": (
        {"status.capacity": {"storage": "-1"}},
        ["status.capacity[storage]: Invalid value: -1: must be a valid resource quantity"],
    ),
    "how far growth is": (
        {
            "status.allocatedResourceStatuses": {"storage": "NodeResizePending"},
            "status.allocatedResources": {},
        },
        [],
    ),
    "growth of what does not grow": (
        {"status.allocatedResources": {"cpu": "1"}},
        ['status.allocatedResources: Unsupported value: "cpu": supported values: "storage"'],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), STATUS.values(), ids=STATUS)
def test_the_status_of_claims(changes: Changes, texts: list[str]) -> None:
    assert CLAIM.updated(bound(), changes, "status").texts == texts


def test_warnings_of_claims() -> None:
    document = CLAIM.created(PVC, {SIZE: "1500m"}).document
    assert CLAIM.strategy.warn(document, None) == [
        'spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer'
    ]
