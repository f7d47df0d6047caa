"""What a write changes of a ResourceClaim's status, and for which node that is."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.admission.plugins.resource_claim_status import StatusChanges, allocated_node, changes_of

ALLOCATED: Final[Any] = {
    "devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "1"}]}
}
CONSUMER: Final = {"resource": "pods", "name": "p", "uid": "u"}


def device(driver: str = "d", name: str = "1", **fields: Any) -> dict[str, Any]:
    return {"driver": driver, "pool": "p", "device": name, **fields}


def status(*devices: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"allocation": ALLOCATED, "devices": [*devices], **fields}


# The status before and after, and what has changed.
CHANGES: Final[dict[str, tuple[Any, Any, StatusChanges]]] = {
    "nothing": (status(device()), status(device()), StatusChanges(False, [])),
    "nothing, with other empty fields": (
        {"allocation": ALLOCATED, "reservedFor": None},
        {"allocation": {**ALLOCATED, "nodeSelector": None}, "reservedFor": [], "devices": []},
        StatusChanges(False, []),
    ),
    "an allocation": ({}, {"allocation": ALLOCATED}, StatusChanges(True, [])),
    "an allocation of nothing": ({}, {"allocation": {}}, StatusChanges(True, [])),
    "an allocation for some nodes": (
        {"allocation": {}},
        {"allocation": {"nodeSelector": {"nodeSelectorTerms": []}}},
        StatusChanges(True, []),
    ),
    "no allocation any more": ({"allocation": ALLOCATED}, {}, StatusChanges(True)),
    "a consumer": (status(), status(reservedFor=[CONSUMER]), StatusChanges(True, [])),
    "no consumer any more": (status(reservedFor=[CONSUMER]), status(), StatusChanges(True, [])),
    "consumers in another order": (
        status(reservedFor=[CONSUMER, {**CONSUMER, "uid": "v"}]),
        status(reservedFor=[{**CONSUMER, "uid": "v"}, CONSUMER]),
        StatusChanges(True, []),
    ),
    "a device's state": (status(), status(device()), StatusChanges(False, ["d"])),
    "no state any more": (status(device()), status(), StatusChanges(False, ["d"])),
    "devices in another order": (
        status(device("a"), device("b")),
        status(device("b"), device("a")),
        StatusChanges(False, []),
    ),
    "one device of two drivers": (
        status(device("a"), device("b")),
        status(device("a"), device("b", conditions=[{"type": "Ready"}])),
        StatusChanges(False, ["b"]),
    ),
    "the devices of several drivers": (
        status(device("b", "2"), device("b", "1"), device("c")),
        status(device("a"), device("b", "3")),
        StatusChanges(False, ["a", "b", "c"]),
    ),
    "another share of a device": (
        status(device(shareID="1")),
        status(device(shareID="2")),
        StatusChanges(False, ["d"]),
    ),
    "what a driver notes: a null": (
        status(device(data={"a": None})),
        status(device(data={})),
        StatusChanges(False, ["d"]),
    ),
    "what a driver notes: a truth value": (
        status(device(data={"a": 1})),
        status(device(data={"a": True})),
        StatusChanges(False, ["d"]),
    ),
    "the state of devices that are not allocated any more": (
        status(device()),
        {"devices": [device("e")]},
        StatusChanges(True),
    ),
}


@pytest.mark.parametrize(("before", "after", "changes"), CHANGES.values(), ids=CHANGES)
def test_what_a_write_changes(before: Any, after: Any, changes: StatusChanges) -> None:
    assert changes_of(after, before) == changes


def selector(*terms: Any) -> Any:
    return {"nodeSelector": {"nodeSelectorTerms": [*terms]}}


FIELD: Final = {"key": "metadata.name", "operator": "In", "values": ["n"]}

NODES: Final[dict[str, tuple[Any, str]]] = {
    "one node": (selector({"matchFields": [FIELD]}), "n"),
    "all nodes": ({}, ""),
    "no selector": ({"nodeSelector": None}, ""),
    "no terms": (selector(), ""),
    "two terms": (selector({"matchFields": [FIELD]}, {"matchFields": [FIELD]}), ""),
    "two fields": (selector({"matchFields": [FIELD, FIELD]}), ""),
    "two values": (selector({"matchFields": [{**FIELD, "values": ["n", "m"]}]}), ""),
    "another field": (selector({"matchFields": [{**FIELD, "key": "metadata.uid"}]}), ""),
    "another operator": (selector({"matchFields": [{**FIELD, "operator": "NotIn"}]}), ""),
    "labels, too": (selector({"matchFields": [FIELD], "matchExpressions": [FIELD]}), ""),
    "no labels": (selector({"matchFields": [FIELD], "matchExpressions": []}), "n"),
}


@pytest.mark.parametrize(("allocation", "node"), NODES.values(), ids=NODES)
def test_the_node_of_an_allocation(allocation: Any, node: str) -> None:
    assert allocated_node(allocation) == node
