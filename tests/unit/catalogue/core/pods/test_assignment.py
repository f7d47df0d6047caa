"""What a pod says once it has a node. Source: pkg/registry/core/pod/storage, setPodNodeAndMetadata."""

from __future__ import annotations

import pytest

from apiserver.catalogue.core.pods.preparation import assign_node
from tests.unit.catalogue.valid_pods import pod

NOW = "2026-01-01T00:00:00Z"
BEFORE = "2025-01-01T00:00:00Z"
GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "observedGeneration": 2,
    "lastTransitionTime": BEFORE,
    "lastProbeTime": None,
}
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}


@pytest.mark.parametrize(
    ("old", "since"),
    [(None, NOW), (GATED, NOW), (GATED | {"status": "True"}, BEFORE)],
    ids=["never tried", "gated", "scheduled before"],
)
def test_a_binding_replaces_the_reason_why_a_pod_was_not_scheduled(
    old: dict[str, object] | None, since: str
) -> None:
    document = pod(status={"conditions": [old]} if old else {})
    assign_node(document, "n", NOW, clears_nomination=True)
    assert document["spec"]["nodeName"] == "n"
    assert document["status"]["conditions"] == [SCHEDULED | {"lastTransitionTime": since}]


@pytest.mark.parametrize("clears", [True, False])
def test_a_binding_clears_the_nomination_if_the_gate_is_on(clears: bool) -> None:
    """Since 1.35: ClearingNominatedNodeNameAfterBinding."""
    document = pod(status={"nominatedNodeName": "m"})
    assign_node(document, "n", NOW, clears_nomination=clears)
    assert document["status"].get("nominatedNodeName") == (None if clears else "m")
