"""ResourcePoolStatusRequests. Source: pkg/apis/resource/validation (release 1.36); rows H01, H09, S03."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.removed_versions.old_kinds import OldKind
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

REQUEST: Final = OldKind(
    "resourcepoolstatusrequests.resource.k8s.io", "v1alpha3", 36, {"spec": {"driver": "Gpu.example.com"}}
)


def test_a_hundred_pools_are_told_if_nothing_is_said() -> None:
    created = REQUEST.create({"status": {"poolCount": 1}})
    assert created.texts == []
    assert created.document["spec"]["limit"] == 100
    assert "status" not in created.document


INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "no driver": ({"spec.driver": ""}, ["spec.driver: Required value"]),
    "a bad driver": ({"spec.driver": "a b"}, ['spec.driver: Invalid value: "a b": a lowercase RFC 1123 sub']),
    "no pool": ({"spec.poolName": ""}, ["spec.poolName: Required value"]),
    "no limit": ({"spec.limit": 0}, ["spec.limit: Invalid value: 0: must be greater than or equal to 1"]),
    "a high limit": (
        {"spec.limit": 1_001},
        ["spec.limit: Invalid value: 1001: must be less than or equal to 1000"],
    ),
}


@pytest.mark.parametrize(("changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, beginnings: list[str]) -> None:
    assert_texts_begin(REQUEST.create(changes).texts, beginnings)


def test_what_is_asked_for_never_changes() -> None:
    (text,) = REQUEST.update({"spec.driver": "other"}).texts
    assert text.endswith("field is immutable")


def pool(**fields: Any) -> Document:
    return {"driver": "a.b", "poolName": "a", "generation": 1, "totalDevices": 2, **fields}


# A status, and the beginnings of what is told.
STATUSES: Final[dict[str, tuple[Document | None, list[str]]]] = {
    "none yet": (None, []),
    "nothing found": ({"poolCount": 0}, []),
    "a pool": ({"poolCount": 1, "pools": [pool()]}, []),
    "no count": ({}, ["status.poolCount: Required value"]),
    "too many pools": (
        {"poolCount": 1, "pools": [pool()] * 1_001},
        ["status.pools: Too many: 1001: must have at most 1000 items"],
    ),
    "a pool without anything": (
        {"poolCount": 1, "pools": [{"generation": -1, "resourceSliceCount": 0, "totalDevices": -1}]},
        [
            "status.pools[0].driver: Required value",
            "status.pools[0].poolName: Required value",
            "status.pools[0].generation: Invalid value: -1",
            "status.pools[0].resourceSliceCount: Invalid value: 0: must be greater than or equal to 1",
            "status.pools[0].totalDevices: Invalid value: -1",
        ],
    ),
    "a pool with a long problem": (
        {"poolCount": 1, "pools": [pool(nodeName="", validationError="x" * 257)]},
        ["status.pools[0].nodeName: Required value", "status.pools[0].validationError: Too long"],
    ),
}


@pytest.mark.parametrize(("status", "beginnings"), STATUSES.values(), ids=STATUSES)
def test_statuses(status: Document | None, beginnings: list[str]) -> None:
    assert_texts_begin(REQUEST.update({"status": status}, "status").texts, beginnings)


def test_a_status_is_written_once() -> None:
    stored = REQUEST.create().document
    stored["status"] = {"poolCount": 1}
    rules = REQUEST.resource.subresources["status"].update
    assert rules is not None
    assert rules.validate(stored, stored) == []
    (error,) = rules.validate({**stored, "status": {"poolCount": 2}}, stored)
    assert str(error).endswith("field is immutable")
