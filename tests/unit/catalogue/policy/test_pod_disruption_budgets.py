"""Pod disruption budgets. Source: k8s.io/kubernetes, pkg/apis/policy/validation (release 1.34)."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.served_kinds import Changes, ServedKind

BUDGETS: Final = ServedKind("poddisruptionbudgets.policy")
BUDGET: Final[Document] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "p"},
    "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
}
NOTHING_COUNTED: Final = {
    "disruptionsAllowed": 0,
    "currentHealthy": 0,
    "desiredHealthy": 0,
    "expectedPods": 0,
}

SPECS: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a share of the pods": ({}, []),
    "a number of pods": ({"spec.minAvailable": 3}, []),
    "no bound at all": ({"spec": {}}, []),
    "one bound only": (
        {"spec": {"minAvailable": 1, "maxUnavailable": 1}},
        [
            (
                'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":1,'
                '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set'
            )
        ],
    ),
    "no more than all": (
        {"spec.minAvailable": "200%"},
        ['spec.minAvailable: Invalid value: "200%": must not be greater than 100%'],
    ),
    "no less than none": (
        {"spec": {"maxUnavailable": -1}},
        ["spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "a known policy": (
        {"spec.unhealthyPodEvictionPolicy": "X"},
        [
            (
                'spec.unhealthyPodEvictionPolicy: Unsupported value: "X": '
                'supported values: "AlwaysAllow", "IfHealthyBudget"'
            )
        ],
    ),
    "a selector that selects": (
        {"spec.selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        [
            (
                "spec.selector.matchExpressions[0].values: Required value: "
                "must be specified when `operator` is 'In' or 'NotIn'"
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), SPECS.values(), ids=SPECS)
def test_specs(changes: Changes, texts: list[str]) -> None:
    document, _ = created = BUDGETS.created(BUDGET, changes)
    assert created.texts == texts
    assert document["status"] == NOTHING_COUNTED


def test_specs_change() -> None:
    old = BUDGETS.created(BUDGET).document
    assert BUDGETS.updated(old, {"spec": {"maxUnavailable": 1}}).errors == []
    (error,) = BUDGETS.updated(old, {"spec": {"maxUnavailable": -1}}).errors
    assert error.field == "spec.maxUnavailable"


def test_counts_are_not_negative() -> None:
    old = BUDGETS.created(BUDGET).document
    new = BUDGETS.updated(old, {"status.expectedPods": -1}, "status")
    assert new.texts == ["status.expectedPods: Invalid value: -1: must be greater than or equal to 0"]


def test_rows() -> None:
    cells = BUDGETS.row(BUDGETS.created(BUDGET).document)
    assert (cells["Min Available"], cells["Max Unavailable"], cells["Allowed Disruptions"]) == (
        "50%",
        "N/A",
        0,
    )
