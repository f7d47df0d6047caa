"""What a terminating namespace tells of its content.

Source: kubernetes, pkg/controller/namespace/deletion.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.controllers.namespace_conditions import MESSAGE_LENGTH_MAX, RemainingContent
from apiserver.meta.vocabulary import Document
from tests.support.served import TABLE

CONFIGMAPS: Final = TABLE.find("", "v1", "configmaps")
PODS: Final = TABLE.find("", "v1", "pods")
LEASES: Final = TABLE.find("coordination.k8s.io", "v1", "leases")


def pod(grace_s: int, phase: str = "Running") -> Document:
    return {"metadata": {}, "spec": {"terminationGracePeriodSeconds": grace_s}, "status": {"phase": phase}}


def held(*finalizers: str) -> Document:
    return {"metadata": {"finalizers": list(finalizers)}}


UNEXPECTED: Final = "unexpected items still remain in namespace: ns for gvr: /v1, Resource=pods"
FAILED: Final = "Failed to delete all resource types, 1 remaining: "
REMAIN: Final = "Some resources are remaining: "
HELD: Final = "Some content in the namespace has finalizers remaining: "
LEASE: Final = "leases.coordination.k8s.io has 1 resource instances"
# Objects that are left, how long ago the deletion began, and the conditions that hold.
CASES: Final[dict[str, tuple[list[tuple[Any, Document]], float, dict[str, tuple[str, str]]]]] = {
    "nothing": ([], 0, {}),
    "objects with finalizers": (
        [(CONFIGMAPS, held("b/x", "a/x")), (CONFIGMAPS, held("b/x")), (LEASES, held("b/x"))],
        100,
        {
            "NamespaceContentRemaining": (
                "SomeResourcesRemain",
                f"{REMAIN}configmaps. has 2 resource instances, {LEASE}",
            ),
            "NamespaceFinalizersRemaining": (
                "SomeFinalizersRemain",
                f"{HELD}a/x in 1 resource instances, b/x in 3 resource instances",
            ),
        },
    ),
    "pods that are stopping": (
        [(PODS, pod(30)), (PODS, pod(60))],
        59,
        {"NamespaceContentRemaining": ("SomeResourcesRemain", f"{REMAIN}pods. has 2 resource instances")},
    ),
    "a pod that should have stopped": (
        [(PODS, pod(30)), (PODS, pod(99, "Succeeded"))],
        31,
        {
            "NamespaceDeletionContentFailure": ("ContentDeletionFailed", FAILED + UNEXPECTED),
            "NamespaceContentRemaining": ("SomeResourcesRemain", f"{REMAIN}pods. has 2 resource instances"),
        },
    ),
}


@pytest.mark.parametrize(("left", "deleted_for_s", "expected"), CASES.values(), ids=CASES)
def test_a12_what_remains_is_told(
    left: list[tuple[Any, Document]], deleted_for_s: float, expected: dict[str, tuple[str, str]]
) -> None:
    remaining = RemainingContent()
    for resource, document in left:
        remaining.add(resource, document)
    for resource in (CONFIGMAPS, PODS, LEASES):
        assert resource is not None
        remaining.conclude(resource, "ns", deleted_for_s)
    conditions = remaining.conditions()
    assert len(conditions) == 5
    holding = [each for each in conditions if each["status"] == "True"]
    assert {each["type"]: (each["reason"], each["message"]) for each in holding} == expected
    assert bool(remaining) is bool(left)


def test_a_message_is_bounded() -> None:
    remaining = RemainingContent()
    assert CONFIGMAPS is not None
    for number in range(1_000):
        remaining.add(CONFIGMAPS, held(f"example.com/{number}-{'x' * 500}"))
    for each in remaining.conditions():
        assert len(each["message"]) < MESSAGE_LENGTH_MAX + 100
