"""How a deletion marks an object that cannot be removed at once. Rows G01, G08.

Source: k8s.io/apiserver, pkg/registry/rest/delete.go, BeforeDelete.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta import timestamps
from apiserver.meta.options import DeleteOptions
from apiserver.registry import deletion
from tests.support.in_process import resource

PODS: Final = resource("pods", "")
NOW: Final = 1_800_000_000.0
BEGAN: Final = NOW - 10


def pod(grace_s: int | None = None, **meta: Any) -> dict[str, Any]:
    """A pod on a node, whose deletion began ten seconds ago with a grace period if one is given."""
    if grace_s is not None:
        ends_at = timestamps.to_text(BEGAN + grace_s)
        meta = {"deletionTimestamp": ends_at, "deletionGracePeriodSeconds": grace_s, **meta}
    spec = {"nodeName": "n", "terminationGracePeriodSeconds": 30}
    return {"metadata": {"name": "a", "generation": 1, **meta}, "spec": spec}


# The grace period, that of another deletion, what it is then, and when that ends.
GRACE: Final = {
    "it begins": (None, None, 30, NOW + 30),
    "it begins with the one that is asked for": (None, 5, 5, NOW + 5),
    "less than none is a second": (None, -1, 1, NOW + 1),
    "no other is asked for": (30, None, 30, BEGAN + 30),
    "it may not become longer": (30, 60, 30, BEGAN + 30),
    "it becomes shorter": (30, 20, 20, BEGAN + 20),
    "a shorter one is over already": (30, 5, 1, NOW),
    "none is left": (30, 0, 0, NOW),
    "less than none is a second, too": (30, -5, 1, NOW),
}


@pytest.mark.parametrize(("before_s", "asked_s", "after_s", "ends_at"), GRACE.values(), ids=GRACE)
def test_grace_periods(before_s: int | None, asked_s: int | None, after_s: int, ends_at: float) -> None:
    marked = deletion.mark(PODS, pod(before_s), DeleteOptions(grace_period_s=asked_s), NOW)
    meta = marked["metadata"]
    assert meta["deletionGracePeriodSeconds"] == after_s
    assert meta["deletionTimestamp"] == timestamps.to_text(ends_at)
    assert meta["generation"] == (2 if before_s is None else 1)


# What another deletion with the policy Orphan leaves as finalizers, by its grace period.
FINALIZERS: Final = {
    "that says nothing of it changes nothing": (30, None, ["example.com/f"]),
    "that is no shorter changes nothing": (30, 30, ["example.com/f"]),
    "that shortens it has its policy": (30, 20, ["example.com/f", "orphan"]),
    "has its policy when it is over": (0, None, ["example.com/f", "orphan"]),
}


@pytest.mark.parametrize(("before_s", "asked_s", "finalizers"), FINALIZERS.values(), ids=FINALIZERS)
def test_while_a_grace_period_runs_a_deletion(
    before_s: int, asked_s: int | None, finalizers: list[str]
) -> None:
    """Source: Store.Delete: finalizers cannot be updated by options if a deletion is pending."""
    options = DeleteOptions(grace_period_s=asked_s, propagation="Orphan")
    marked = deletion.mark(PODS, pod(before_s, finalizers=["example.com/f"]), options, NOW)
    assert marked["metadata"]["finalizers"] == finalizers
