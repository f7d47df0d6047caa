"""The time that rules take grows with the length of lists, not with its square, whoever fills them."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind

MANY: Final = range(10_000)
GATES: Final = ("AllAlpha", "AllBeta")
# Each takes less than half a second; one that searches a list for each item takes three seconds to a minute.
SECONDS_MAX: Final = 2


def pod(**fields: Any) -> ServedKind:
    container = {"name": "c", "image": "i", **fields.pop("container", {})}
    return ServedKind("pods", {"spec": {"containers": [container], **fields}}, gates=GATES)


FILE: Final = {"volumeName": "v", "path": "a", "key": "K"}
CLAIMS: Final = [{"name": f"c{number}", "resourceClaimName": f"c{number}"} for number in MANY]

NEW: Final[dict[str, tuple[ServedKind, Changes]]] = {
    "variables in files": (
        pod(),
        {
            "spec.containers.0.env": [{"name": "E", "valueFrom": {"fileKeyRef": FILE}} for _ in MANY],
            "spec.volumes": [{"name": f"v{number}", "emptyDir": {}} for number in MANY],
        },
    )
}
STATUSES: Final[dict[str, tuple[ServedKind, Changes]]] = {
    "devices that are allocated to a container": (
        pod(
            resourceClaims=CLAIMS, container={"resources": {"claims": [{"name": c["name"]} for c in CLAIMS]}}
        ),
        {
            "status.containerStatuses": [
                {"name": "c", "allocatedResourcesStatus": [{"name": f"claim:{c['name']}"} for c in CLAIMS]}
            ]
        },
    ),
    "claims of what a node has": (
        pod(resourceClaims=CLAIMS),
        {"status.nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": c["name"]} for c in CLAIMS]},
    ),
}


@pytest.mark.parametrize(("kind", "changes"), NEW.values(), ids=NEW)
def test_new_objects(kind: ServedKind, changes: Changes) -> None:
    began = time.process_time()
    kind.create(changes)
    assert time.process_time() - began < SECONDS_MAX


@pytest.mark.parametrize(("kind", "changes"), STATUSES.values(), ids=STATUSES)
def test_statuses(kind: ServedKind, changes: Changes) -> None:
    stored = kind.create().document
    began = time.process_time()
    kind.updated(stored, changes, "status")
    assert time.process_time() - began < SECONDS_MAX


def test_equal_terms_of_a_storage_class_have_no_more_errors_than_anybody_reads() -> None:
    kind = ServedKind("storageclasses.storage.k8s.io", {"provisioner": "example.com/disk"})
    assert len(kind.create({"allowedTopologies": [{} for _ in MANY]}).errors) == 100
