"""The status of a disruption budget follows from its pods.

https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-budgets
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.controllers.disruption.budgets import (
    BudgetedPod,
    DisruptedPods,
    Expectation,
    expectation,
    failed_status,
    needs_scale,
    status,
    still_disrupted,
)
from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document

NOW_S: Final = 1_700_000_000.0
NOW: Final = timestamps.to_text(NOW_S)


def budget(status: Document | None = None, **spec: Any) -> Document:
    document = {"metadata": {"name": "b", "generation": 3}, "spec": spec}
    return document if status is None else {**document, "status": status}


# The spec, how many pods there are, how many their owners want, and what is expected.
EXPECTED: Final = {
    "a number that must be there": ({"minAvailable": 2}, 5, 0, (5, 2)),
    "more than there are": ({"minAvailable": 9}, 5, 0, (5, 9)),
    "a percentage is of what is wanted, rounded up": ({"minAvailable": "50%"}, 2, 7, (7, 4)),
    "all": ({"minAvailable": "100%"}, 2, 7, (7, 7)),
    "none": ({"minAvailable": "0%"}, 2, 7, (7, 0)),
    "a number that may be missing": ({"maxUnavailable": 2}, 5, 7, (7, 5)),
    "more than are wanted": ({"maxUnavailable": 9}, 5, 7, (7, 0)),
    "a percentage that may be missing, rounded up": ({"maxUnavailable": "10%"}, 5, 7, (7, 6)),
    "nothing is said": ({}, 5, 0, (0, 0)),
}


@pytest.mark.parametrize(("spec", "pods", "scale", "expected"), EXPECTED.values(), ids=EXPECTED)
def test_how_many_pods_are_expected(spec: Document, pods: int, scale: int, expected: tuple[int, int]) -> None:
    assert expectation(budget(**spec), pods, scale) == Expectation(*expected)
    assert needs_scale(budget(**spec)) is (scale > 0)


def pod(name: str, *, ready: bool = True, deleted: bool = False) -> BudgetedPod:
    return BudgetedPod(name, ready, deleted, None)


def test_which_pods_are_healthy_and_how_many_may_go() -> None:
    pods = [pod("a"), pod("b"), pod("c"), pod("d", ready=False), pod("e", deleted=True), pod("f")]
    found = status(budget(), pods, Expectation(6, 2), DisruptedPods({"f": NOW}, 60.0), NOW)
    assert found == {
        "observedGeneration": 3,
        "expectedPods": 6,
        "currentHealthy": 3,
        "desiredHealthy": 2,
        "disruptionsAllowed": 1,
        "disruptedPods": {"f": NOW},
        "conditions": [
            {
                "type": "DisruptionAllowed",
                "status": "True",
                "reason": "SufficientPods",
                "message": "",
                "observedGeneration": 3,
                "lastTransitionTime": NOW,
            }
        ],
    }


# The healthy pods, what is expected, and how many disruptions are allowed.
ALLOWED: Final = {
    "as many as must be": (2, (2, 2), 0),
    "fewer": (1, (2, 2), 0),
    "more": (5, (5, 2), 3),
    "where none is expected there may be others soon": (0, (0, 0), 0),
}


@pytest.mark.parametrize(("healthy", "expected", "allowed"), ALLOWED.values(), ids=ALLOWED)
def test_how_many_disruptions_are_allowed(healthy: int, expected: tuple[int, int], allowed: int) -> None:
    pods = [pod(str(number)) for number in range(healthy)]
    found = status(budget(), pods, Expectation(*expected), DisruptedPods({}, None), NOW)
    assert found["disruptionsAllowed"] == allowed
    condition = found["conditions"][0]
    reason = "SufficientPods" if allowed else "InsufficientPods"
    assert (condition["status"], condition["reason"]) == (str(allowed > 0), reason)


def test_what_is_right_stays_as_it_is() -> None:
    """Also the time since when it is allowed, and conditions of others."""
    pods, expected, nobody = [pod("a"), pod("b")], Expectation(2, 1), DisruptedPods({}, None)
    first = status(budget(), pods, expected, nobody, "2020-01-01T00:00:00Z")
    first["conditions"].append({"type": "Other", "status": "True"})
    assert status(budget(first), pods, expected, nobody, NOW) == first
    changed = status(budget(first), pods[:1], expected, nobody, NOW)
    assert [each["type"] for each in changed["conditions"]] == ["DisruptionAllowed", "Other"]
    assert changed["conditions"][0]["lastTransitionTime"] == NOW


def test_what_cannot_be_judged_allows_nothing_and_keeps_its_generation() -> None:
    before = status(budget(), [pod("a"), pod("b")], Expectation(2, 1), DisruptedPods({}, None), NOW)
    newer = budget(before)
    newer["metadata"]["generation"] = 4
    failed = failed_status(newer, "why", NOW)
    assert (failed["disruptionsAllowed"], failed["observedGeneration"]) == (0, 3)
    condition = failed["conditions"][0]
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "SyncFailed", "why")


def ago(seconds: float) -> str:
    return timestamps.to_text(NOW_S - seconds)


# When the eviction of pod `a` was allowed, the pods, and in how many seconds `a` counts again.
DISRUPTED: Final[dict[str, tuple[dict[str, str], list[BudgetedPod], float | None]]] = {
    "just now": ({"a": ago(0)}, [pod("a")], 120.0),
    "the first of several": ({"a": ago(20), "b": ago(50)}, [pod("a"), pod("b")], 70.0),
    "it is gone": ({"a": ago(0)}, [pod("b")], None),
    "it is being deleted": ({"a": ago(0)}, [pod("a", deleted=True)], None),
    "it was not deleted": ({"a": ago(121)}, [pod("a")], None),
    "a time that is none": ({"a": "soon"}, [pod("a")], None),
}


@pytest.mark.parametrize(("listed", "pods", "next_end_s"), DISRUPTED.values(), ids=DISRUPTED)
def test_for_how_long_an_evicted_pod_does_not_count(
    listed: dict[str, str], pods: list[BudgetedPod], next_end_s: float | None
) -> None:
    found = still_disrupted(budget({"disruptedPods": listed}), pods, NOW_S)
    assert found.next_end_s == next_end_s
    assert found.pods == (listed if next_end_s is not None else {})
