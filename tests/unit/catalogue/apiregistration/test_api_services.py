"""Groups of one kind: leases, priority and runtime classes, API services; rows T12, T15, T19, T23.

Source: pkg/apis/{coordination,scheduling,node}/validation and kube-aggregator's of apiregistration (1.34).
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.lifecycle import Changes
from tests.unit.catalogue.served_kinds import CREATED, ServedKind

LEASE: Final = ServedKind("leases.coordination.k8s.io", {"spec": {"leaseDurationSeconds": 15}})
PRIORITY: Final = ServedKind("priorityclasses.scheduling.k8s.io", {"value": 7})
RUNTIME: Final = ServedKind("runtimeclasses.node.k8s.io", {"handler": "runc"})
API_SERVICE: Final = ServedKind(
    "apiservices.apiregistration.k8s.io",
    {
        "metadata": {"name": "v1.example.com"},
        "spec": {
            "group": "example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "service": {"name": "s", "namespace": "n"},
        },
    },
)
_RESERVED: Final = (
    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use "
    "only. error: "
)

INVALID: Final[dict[str, tuple[ServedKind, Changes, list[str]]]] = {
    "a lease lasts": (
        LEASE,
        {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}},
        [
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
    "users' priorities end": (
        PRIORITY,
        {"value": 1_000_000_001},
        ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    ),
    "some names are the system's": (
        PRIORITY,
        {"metadata.name": "system-x"},
        [f"{_RESERVED}system-x is not a known system priority class"],
    ),
    "the system's classes have their values": (
        PRIORITY,
        {"metadata.name": "system-node-critical"},
        [f"{_RESERVED}value of system-node-critical PriorityClass must be 2000001000"],
    ),
    "the system's classes are no default": (
        PRIORITY,
        {"metadata.name": "system-cluster-critical", "value": 2_000_000_000, "globalDefault": True},
        [f"{_RESERVED}globalDefault of system-cluster-critical PriorityClass must be false"],
    ),
    "preemption is one of two": (
        PRIORITY,
        {"preemptionPolicy": "Always"},
        ['preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never"'],
    ),
    "a handler is a label": (
        RUNTIME,
        {"handler": "a.b"},
        ['handler: Invalid value: "a.b": must not contain dots'],
    ),
    "a toleration is well-formed": (
        RUNTIME,
        {"scheduling": {"tolerations": [{"key": "k", "operator": "Is"}]}},
        ['scheduling.tolerations[0].operator: Unsupported value: "Is": supported values: "Equal", "Exists"'],
    ),
    "an API service is called by its version": (
        API_SERVICE,
        {"metadata.name": "wrong", "spec": {"group": "g", "version": "v1"}},
        [
            'metadata.name: Invalid value: "wrong": must be `spec.version+"."+spec.group`: "v1.g"',
            "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
            "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
        ],
    ),
    "what is local needs no certificate": (
        API_SERVICE,
        {"spec.service": None, "spec.caBundle": "eHg=", "spec.insecureSkipTLSVerify": True},
        [
            'spec.caBundle: Invalid value: "2 bytes": local APIServices may not have a caBundle',
            (
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have "
                "insecureSkipTLSVerify"
            ),
        ],
    ),
    "a service is in a namespace": (
        API_SERVICE,
        {"spec.service.namespace": None},
        ["spec.service.namespace: Required value"],
    ),
}


@pytest.mark.parametrize(("served", "changes", "texts"), INVALID.values(), ids=INVALID)
def test_what_is_wrong(served: ServedKind, changes: Changes, texts: list[str]) -> None:
    assert served.create().errors == []
    assert served.create(changes).texts == texts


FIXED: Final[dict[str, tuple[ServedKind, Changes, list[str]]]] = {
    "a priority": (
        PRIORITY,
        {"value": 8, "preemptionPolicy": "Never"},
        [
            "value: Forbidden: may not be changed in an update.",
            'preemptionPolicy: Invalid value: "Never": field is immutable',
        ],
    ),
    "a handler": (RUNTIME, {"handler": "kata"}, ['handler: Invalid value: "kata": field is immutable']),
    "not a description": (PRIORITY, {"description": "d", "globalDefault": True}, []),
}


@pytest.mark.parametrize(("served", "changes", "texts"), FIXED.values(), ids=FIXED)
def test_what_stays(served: ServedKind, changes: Changes, texts: list[str]) -> None:
    assert served.update(changes).texts == texts


def test_a_lease_keeps_nothing_of_coordinated_election() -> None:
    """It is alpha, and off; a PUT creates leases (row A03)."""
    changes = {"spec.strategy": "OldestEmulationVersion", "spec.preferredHolder": "h"}
    assert LEASE.create(changes).document["spec"] == LEASE.valid["spec"]
    assert LEASE.update(changes).document["spec"] == LEASE.valid["spec"]
    assert LEASE.resource.strategy.allows_create_on_update


def test_a_priority_class_has_one_generation() -> None:
    document = PRIORITY.create().document
    assert (document["preemptionPolicy"], document["metadata"]["generation"]) == ("PreemptLowerPriority", 1)
    assert PRIORITY.update({"description": "d"}).document["metadata"]["generation"] == 1
    assert not PRIORITY.resource.strategy.has_generation


def test_what_this_server_serves_is_available_at_once() -> None:
    local = API_SERVICE.create({"spec.service": None, "status": {"conditions": []}}).document
    (condition,) = local["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Available", "True")
    assert condition["lastTransitionTime"] == CREATED
    remote = API_SERVICE.create().document
    assert (remote["status"], remote["spec"]["service"]["port"]) == ({}, 443)


def test_a_condition_is_true_or_not_or_unknown() -> None:
    conditions = [{"type": "Available", "status": "Maybe"}]
    assert API_SERVICE.update({"status.conditions": conditions}, "status").texts == [
        (
            'status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", "False", '
            '"Unknown"'
        )
    ]


ROWS: Final[dict[str, tuple[ServedKind, Changes, dict[str, Any]]]] = {
    "a lease": (LEASE, {"spec.holderIdentity": "me"}, {"Holder": "me"}),
    "a priority": (PRIORITY, {}, {"Value": 7, "Global-Default": False}),
    "a runtime": (RUNTIME, {}, {"Handler": "runc"}),
    "another server": (API_SERVICE, {}, {"Service": "n/s", "Available": "Unknown"}),
    "a server that is away": (
        API_SERVICE,
        {"status.conditions": [{"type": "Available", "status": "False", "reason": "Gone"}]},
        {"Available": "False (Gone)"},
    ),
    "this server": (API_SERVICE, {"spec.service": None}, {"Service": "Local"}),
}


@pytest.mark.parametrize(("served", "changes", "cells"), ROWS.values(), ids=ROWS)
def test_rows(served: ServedKind, changes: Changes, cells: dict[str, Any]) -> None:
    assert cells.items() <= served.cells(changes).items()
