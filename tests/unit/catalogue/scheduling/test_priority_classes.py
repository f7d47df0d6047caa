"""PriorityClasses. Source: pkg/apis/scheduling/validation (release 1.34); row T23."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind

PRIORITY_CLASS: Final = ServedKind("priorityclasses.scheduling.k8s.io", {"value": 7})
_RESERVED: Final = (
    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use "
    "only. error: "
)

INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "users' priorities end": (
        {"value": 1_000_000_001},
        ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    ),
    "some names are the system's": (
        {"metadata.name": "system-x"},
        [f"{_RESERVED}system-x is not a known system priority class"],
    ),
    "the system's classes have their values": (
        {"metadata.name": "system-node-critical"},
        [f"{_RESERVED}value of system-node-critical PriorityClass must be 2000001000"],
    ),
    "the system's classes are no default": (
        {"metadata.name": "system-cluster-critical", "value": 2_000_000_000, "globalDefault": True},
        [f"{_RESERVED}globalDefault of system-cluster-critical PriorityClass must be false"],
    ),
    "preemption that is empty is none": ({"preemptionPolicy": ""}, ["preemptionPolicy: Required value"]),
    "preemption is one of two": (
        {"preemptionPolicy": "Always"},
        ['preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never"'],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, texts: list[str]) -> None:
    assert PRIORITY_CLASS.create().errors == []
    assert PRIORITY_CLASS.create(changes).texts == texts


FIXED: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a priority": (
        {"value": 8, "preemptionPolicy": "Never"},
        [
            "value: Forbidden: may not be changed in an update.",
            'preemptionPolicy: Invalid value: "Never": field is immutable',
        ],
    ),
    "not a description": ({"description": "d", "globalDefault": True}, []),
}


@pytest.mark.parametrize(("changes", "texts"), FIXED.values(), ids=FIXED)
def test_what_stays(changes: Changes, texts: list[str]) -> None:
    assert PRIORITY_CLASS.update(changes).texts == texts


@pytest.mark.parametrize(
    ("name", "is_refused"), [("system-node-critical", True), ("system-x", False), ("mine", False)]
)
def test_the_systems_classes_stay(name: str, is_refused: bool) -> None:
    refusal = "this is a system priority class and cannot be deleted" if is_refused else ""
    assert PRIORITY_CLASS.strategy.delete_refusal(name) == refusal


def test_a_priority_class_has_one_generation() -> None:
    document = PRIORITY_CLASS.create().document
    assert (document["preemptionPolicy"], document["metadata"]["generation"]) == ("PreemptLowerPriority", 1)
    assert PRIORITY_CLASS.update({"description": "d"}).document["metadata"]["generation"] == 1
    assert not PRIORITY_CLASS.resource.strategy.has_generation


ROWS: Final[dict[str, tuple[Changes, dict[str, Any]]]] = {
    "a priority": ({}, {"Value": 7, "Global-Default": False})
}


@pytest.mark.parametrize(("changes", "cells"), ROWS.values(), ids=ROWS)
def test_rows(changes: Changes, cells: dict[str, Any]) -> None:
    assert cells.items() <= PRIORITY_CLASS.cells(changes).items()
