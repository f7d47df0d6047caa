"""EvictionRequests: who wants a pod to go.

Source: k8s.io/api/lifecycle/v1alpha1, the declarative rules; pkg/registry/lifecycle; rows H01, H09.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.schema.validation.checks import without_nulls
from tests.unit.catalogue.removed_versions.old_kinds import OldKind
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

UID: Final = "b37d123b-8637-4b23-a8f3-41523c344fc2"
POD: Final = {"name": "web.0", "uid": UID}
SPEC: Final = {"target": {"pod": POD}, "requester": "drainer.example.com/node", "intent": "Eviction"}
REQUEST: Final = OldKind("evictionrequests.lifecycle.k8s.io", "v1alpha1", 37, {"spec": SPEC})
TARGET: Final = "spec.target"
REQUESTER: Final = "spec.requester"
RESERVED: Final = "domain names *.k8s.io, *.kubernetes.io are reserved"


def condition(kind: str = "TargetEvicted", status: str = "False", **more: Any) -> dict[str, Any]:
    time = {"lastTransitionTime": "2024-05-06T07:08:09Z"}
    return {"type": kind, "status": status, "reason": "AwaitingEviction", "message": "", **time, **more}


# What is wrong with a request, and what is told: the beginnings.
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "no target": ({TARGET: {}}, [f'{TARGET}: Invalid value: "": must specify one of: `pod`']),
    "a pod without anything": (
        {f"{TARGET}.pod": {}},
        [f"{TARGET}.pod.name: Required value", f"{TARGET}.pod.uid: Required value"],
    ),
    "a pod that cannot be": ({f"{TARGET}.pod.name": "A"}, [f'{TARGET}.pod.name: Invalid value: "A"']),
    "a UID in capitals": (
        {f"{TARGET}.pod.uid": UID.upper()},
        [f'{TARGET}.pod.uid: Invalid value: "{UID.upper()}": must be a lowercase UUID in 8-4-4-4-12 format'],
    ),
    "a UID without hyphens": (
        {f"{TARGET}.pod.uid": UID.replace("-", "")},
        [f"{TARGET}.pod.uid: Invalid value: "],
    ),
    "a UID in braces": ({f"{TARGET}.pod.uid": f"{{{UID}}}"}, [f"{TARGET}.pod.uid: Invalid value: "]),
    "no requester": ({REQUESTER: ""}, [f"{REQUESTER}: Required value"]),
    "a requester without a domain": (
        {REQUESTER: "me"},
        [f"{REQUESTER}: Invalid value: \"me\": must include a prefix (e.g. 'example.com/key')"],
    ),
    "a requester in two steps": ({REQUESTER: "a.b/c/d"}, [f'{REQUESTER}: Invalid value: "a.b/c/d"']),
    "a reserved requester": (
        {REQUESTER: "drain.k8s.io/node"},
        [f'{REQUESTER}: Invalid value: "drain.k8s.io/node": {RESERVED}'],
    ),
    "a reserved domain itself": (
        {REQUESTER: "kubernetes.io/node"},
        [f'{REQUESTER}: Invalid value: "kubernetes.io/node": {RESERVED}'],
    ),
    "a reserved domain in capitals": (
        {REQUESTER: "drain.K8s.io./node"},
        [
            f'{REQUESTER}: Invalid value: "drain.K8s.io./node": {RESERVED}',
            f'{REQUESTER}: Invalid value: "drain.K8s.io./node": prefix part ',
        ],
    ),
    "a domain that only ends like it": ({REQUESTER: "dev-k8s.io/node"}, []),
    "no intent": ({"spec.intent": None}, ["spec.intent: Required value"]),
    "another intent": (
        {"spec.intent": "evict"},
        ['spec.intent: Unsupported value: "evict": supported values: "Eviction", "Withdrawn"'],
    ),
    "nothing": (
        {"spec": {}},
        [f"{TARGET}: Invalid value: ", f"{REQUESTER}: Required value", "spec.intent: Required value"],
    ),
}


@pytest.mark.parametrize(("changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, beginnings: list[str]) -> None:
    assert REQUEST.create().texts == []
    assert_texts_begin(REQUEST.create(changes).texts, beginnings)


# What changes, and what is told.
CHANGES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "labels": ({"metadata.labels": {"a": "b"}}, []),
    "the intent": ({"spec.intent": "Withdrawn"}, []),
    "the intent, to none": ({"spec.intent": ""}, ["spec.intent: Required value"]),
    "the target": ({f"{TARGET}.pod.name": "A"}, [f"{TARGET}: Invalid value: "]),
    "the requester": (
        {REQUESTER: "k8s.io/me"},
        [f'{REQUESTER}: Invalid value: "k8s.io/me": field is immutable'],
    ),
    "no requester": (
        {REQUESTER: ""},
        [f'{REQUESTER}: Invalid value: "": field is immutable', f"{REQUESTER}: Required value"],
    ),
}


@pytest.mark.parametrize(("changes", "beginnings"), CHANGES.values(), ids=CHANGES)
def test_changes(changes: Changes, beginnings: list[str]) -> None:
    assert_texts_begin(REQUEST.update(changes).texts, beginnings)


# A status, what changes in it, and what is told.
STATUSES: Final[dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]]] = {
    "the first": ({}, {"observedGeneration": 1, "conditions": [condition()]}, []),
    "more was seen": ({"observedGeneration": 1}, {"observedGeneration": 2}, []),
    "less was seen": (
        {"observedGeneration": 2},
        {"observedGeneration": 1},
        ["status.observedGeneration: Invalid value: 1: may not be decreased from 2"],
    ),
    "nothing was seen": (
        {"observedGeneration": 2},
        {},
        ["status.observedGeneration: Invalid value: null: field cannot be cleared once set"],
    ),
    "no generation": (
        {},
        {"observedGeneration": 0},
        ["status.observedGeneration: Invalid value: 0: must be greater than or equal to 1"],
    ),
    "conditions may be reset": (
        {"conditions": [condition(status="True")]},
        {"conditions": [condition()]},
        [],
    ),
    "a condition that is none": (
        {},
        {"conditions": [condition(status="Maybe")]},
        ['status.conditions[0].status: Unsupported value: "Maybe"'],
    ),
    "two conditions of a type": (
        {},
        {"conditions": [condition(), condition()]},
        ['status.conditions[1].type: Duplicate value: "TargetEvicted"'],
    ),
    "too many conditions": (
        {},
        {"conditions": [condition(f"C{each}") for each in range(101)]},
        ["status.conditions: Too many: 101: must have at most 100 items"],
    ),
}


@pytest.mark.parametrize(("before", "status", "beginnings"), STATUSES.values(), ids=STATUSES)
def test_statuses(before: dict[str, Any], status: dict[str, Any], beginnings: list[str]) -> None:
    written = REQUEST.update({"status": status, "spec": {}}, "status", stored={"status": before})
    assert_texts_begin(written.texts, beginnings)
    assert written.document["spec"] == REQUEST.create().document["spec"]


def test_the_status_is_the_controllers() -> None:
    status = {"status": {"observedGeneration": 1}}
    assert REQUEST.create(status).document["status"] == {}
    assert REQUEST.update(status).document["status"] == {}
    labels = {"metadata.labels": {"a": "b"}, "metadata.finalizers": ["a.b/c"]}
    assert (
        REQUEST.update({**status, **labels}, "status").document["metadata"]
        == (REQUEST.create().document["metadata"])
    )
    assert REQUEST.strategy.has_generation
    assert not REQUEST.strategy.allows_unconditional_update


def test_it_is_the_same_in_protobuf() -> None:
    document = REQUEST.completed({"status": {"observedGeneration": 1, "conditions": [condition()]}})
    again = {**document, **REQUEST.resource.from_protobuf(REQUEST.resource.to_protobuf(document))}
    assert without_nulls(again) == without_nulls(document)
