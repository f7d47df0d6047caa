"""Evictions: who may write what of their status, and when.

Source: pkg/apis/lifecycle/validation, ValidateEvictionStatus; k8s.io/api/lifecycle/v1alpha1; rows H01, H09.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import without_nulls
from tests.unit.catalogue.lifecycle.test_eviction_requests import POD, condition
from tests.unit.catalogue.removed_versions.old_kinds import NOW, OldKind
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

EVICTION: Final = OldKind("evictions.lifecycle.k8s.io", "v1alpha1", 37, {"spec": {"target": {"pod": POD}}})
TARGETS: Final = "status.targetResponders"
RESPONDERS: Final = "status.responders"
NOW_S: Final = timestamps.from_text(NOW) or 0.0
MINUTE: Final = 60
HOUR: Final = 60 * MINUTE


def at(seconds: float) -> str:
    """A time that is some seconds from now."""
    return timestamps.to_text(NOW_S + seconds)


def target(name: str, state: str = "Inactive", **more: Any) -> Document:
    return {"name": f"{name}.example.com/evictor", "priority": 10_000, "state": state, **more}


def responder(name: str, **more: Any) -> Document:
    return {"name": f"{name}.example.com/evictor", **more}


def status(*states: str, first: Document | None = None, second: Document | None = None) -> Document:
    """Responders `a` and `b` in some states, and what they tell beside their names."""
    told = (first or {}, second or {})
    return {
        "targetResponders": [target(name, state) for name, state in zip("ab", states, strict=False)],
        "responders": [responder(name, **told[index]) for index, name in enumerate("ab"[: len(states)])],
    }


STARTED: Final = {"startTime": at(0)}
RUNNING: Final = {"startTime": at(-2 * HOUR), "heartbeatTime": at(-MINUTE)}
LOST: Final = {"startTime": at(-2 * HOUR), "heartbeatTime": at(-20 * MINUTE)}
DONE: Final = {**RUNNING, "completionTime": at(-1)}
EVICTED: Final = {"conditions": [condition(status="True")]}
FAILED: Final = {"conditions": [condition("Failed", "True")]}
HAS_ENDED: Final = "because the eviction request has finished processing"

# A status, another one, and what is told of the change: the beginnings.
Case = tuple[Document, Document, list[str]]

# Whose turn it is.
TURNS: Final[dict[str, Case]] = {
    "nothing": ({}, {}, []),
    "the first one begins": ({}, status("Active", "Inactive", first=STARTED), []),
    "the first one must begin": (
        {},
        status("Inactive", "Inactive"),
        [
            (
                f'{TARGETS}[0].state: Invalid value: "Inactive": must be one of: Active, because this '
                "responder is next in line"
            )
        ],
    ),
    "only one begins": (
        {},
        status("Active", "Active", first=STARTED, second=STARTED),
        [
            (
                f'{TARGETS}[1].state: Invalid value: "Active": must be one of: Inactive, because the '
                "previously active has not finished processing"
            ),
            f"{TARGETS}[1].state: Forbidden: must stay Active because ",
        ],
    ),
    "nobody begins if it has failed at once": ({}, {**status("Inactive", "Inactive"), **FAILED}, []),
    "somebody begins though it has failed": (
        {},
        {**status("Active", first=STARTED), **FAILED},
        [f'{TARGETS}[0].state: Invalid value: "Active": must be one of: Inactive, {HAS_ENDED}'],
    ),
    "the next one begins": (
        status("Active", "Inactive", first=DONE),
        status("Completed", "Active", first=DONE, second=STARTED),
        [],
    ),
    "the next one must begin": (
        status("Active", "Inactive", first=DONE),
        status("Completed", "Inactive", first=DONE),
        [f'{TARGETS}[1].state: Invalid value: "Inactive": must be one of: Active, because '],
    ),
    "the next one cannot begin before": (
        status("Active", "Inactive", first=RUNNING),
        status("Active", "Active", first=RUNNING, second=STARTED),
        [
            f'{TARGETS}[1].state: Invalid value: "Active": must be one of: Inactive, because ',
            f"{TARGETS}[1].state: Forbidden: must stay Active because ",
        ],
    ),
    "nobody is inactive again": (
        status("Active", "Inactive", first=DONE),
        status("Inactive", "Active", first=DONE, second=STARTED),
        [
            (
                f'{TARGETS}[0].state: Invalid value: "Inactive": must be one of: Canceled, Completed, '
                "Interrupted, because this responder must reach a final state"
            )
        ],
    ),
    "nobody takes the turn of one that runs": (
        status("Active", "Inactive", first=RUNNING),
        status("Interrupted", "Active", first=RUNNING, second=STARTED),
        [f"{TARGETS}[0].state: Forbidden: must stay Active because the responder is in progress and it "],
    ),
    "one that is silent has lost its turn": (
        status("Active", "Inactive", first=LOST),
        status("Interrupted", "Active", first=LOST, second=STARTED),
        [],
    ),
    "one that never told anything, too": (
        status("Active", "Inactive", first={"startTime": at(-20 * MINUTE)}),
        status("Interrupted", "Active", first={"startTime": at(-20 * MINUTE)}, second=STARTED),
        [],
    ),
    "whose turn is over does not come back": (
        status("Interrupted", "Active", first=LOST, second=RUNNING),
        status("Completed", "Active", first=LOST, second=RUNNING),
        [
            (
                f'{TARGETS}[0].state: Invalid value: "Completed": must be one of: Interrupted, because '
                "final state is immutable"
            )
        ],
    ),
    "the last one ends with the eviction": (
        status("Active", "Inactive", first=RUNNING),
        {**status("Completed", "Inactive", first=RUNNING), **EVICTED},
        [],
    ),
    "nobody is active any more when it has ended": (
        status("Active", "Inactive", first=RUNNING),
        {**status("Active", "Inactive", first=RUNNING), **EVICTED},
        [
            (
                f'{TARGETS}[0].state: Invalid value: "Active": must be one of: Canceled, Completed, '
                f"Interrupted, {HAS_ENDED}"
            )
        ],
    ),
    "nobody begins any more when it has ended": (
        status("Active", "Inactive", first=DONE),
        {**status("Completed", "Active", first=DONE, second=STARTED), **EVICTED},
        [f'{TARGETS}[1].state: Invalid value: "Active": must be one of: Inactive, {HAS_ENDED}'],
    ),
    "states stay when it has ended": (
        {**status("Completed", "Inactive", first=DONE), **EVICTED},
        {**status("Canceled", "Inactive", first=DONE), **EVICTED},
        [f'{TARGETS}[0].state: Invalid value: "Canceled": must be one of: Completed, because final state'],
    ),
    "a state that is none": (
        {},
        status("Running", first=STARTED),
        [
            f'{TARGETS}[0].state: Unsupported value: "Running": supported values: "Active", "Canceled", ',
            f'{TARGETS}[0].state: Invalid value: "Running": must be one of: Active, because ',
        ],
    ),
    "a responder without anything": (
        {},
        {"targetResponders": [{}], "responders": [{}]},
        [
            f"{TARGETS}[0].name: Required value",
            f"{TARGETS}[0].priority: Required value",
            f"{TARGETS}[0].state: Required value",
            f'{TARGETS}[0].state: Invalid value: "": must be one of: Active, because ',
            f"{RESPONDERS}[0].name: Required value",
        ],
    ),
    "a priority that is too high": (
        {},
        {**status("Active", first=STARTED), "targetResponders": [target("a", "Active", priority=100_001)]},
        [f"{TARGETS}[0].priority: Invalid value: 100001: must be less than or equal to 100000"],
    ),
    "another priority": (
        status("Active", first=RUNNING),
        {**status("Active", first=RUNNING), "targetResponders": [target("a", "Active", priority=1)]},
        [f"{TARGETS}[0].priority: Invalid value: null: field cannot be modified once set"],
    ),
    "another responder": (
        status("Active", first=RUNNING),
        {"targetResponders": [target("c", "Active")], "responders": [responder("c", **RUNNING)]},
        [f"{TARGETS}: Invalid value: [{{"],
    ),
    "a responder more": (
        status("Active", first=RUNNING),
        status("Active", "Inactive", first=RUNNING),
        [f"{TARGETS}: Invalid value: [{{"],
    ),
    "too many responders": (
        {},
        {"targetResponders": [target(f"r{each}") for each in range(12)]},
        [
            f"{TARGETS}: Too many: 12: must have at most 11 items",
            f"{RESPONDERS}: Invalid value: []: must be ",
        ],
    ),
    "a responder twice": (
        {},
        {"targetResponders": [target("a"), target("a")], "responders": [responder("a"), responder("a")]},
        [
            f'{TARGETS}[1]: Duplicate value: "a.example.com/evictor"',
            f'{RESPONDERS}[1]: Duplicate value: "a.example.com/evictor"',
        ],
    ),
    "a responder that does not tell anything": (
        {},
        {"targetResponders": [target("a", "Active")]},
        [
            f"{TARGETS}[0]: Invalid value: {{",
            f"{RESPONDERS}: Invalid value: []: must be the same length as status.targetResponders and co",
        ],
    ),
    "responders in another order": (
        {},
        {
            "targetResponders": [target("a", "Active"), target("b")],
            "responders": [responder("b"), responder("a", **STARTED)],
        },
        [
            f"{TARGETS}[0]: Invalid value: {{",
            f"{TARGETS}[1]: Invalid value: {{",
            f"{RESPONDERS}: Invalid value: [{{",
        ],
    ),
}

FIRST: Final = f"{RESPONDERS}[0]"
ACTIVE: Final = status("Active", first=RUNNING)


def told(before: Document | None, now: Document, *beginnings: str) -> Case:
    """What the active responder has told, and tells now."""
    return status("Active", first=before), status("Active", first=now), [*beginnings]


# What responders tell of themselves.
TOLD: Final[dict[str, Case]] = {
    "it is there": told(RUNNING, {**RUNNING, "heartbeatTime": at(0), "message": "Draining."}),
    "it ends": told(RUNNING, {**RUNNING, "completionTime": at(0)}),
    "it will end": told(RUNNING, {**RUNNING, "expectedCompletionTime": at(HOUR)}),
    "it has not begun": (
        {},
        status("Active", "Inactive"),
        [f"{FIRST}.startTime: Required value: is required for an active responder"],
    ),
    "it began before": (
        {},
        status("Active", first={"startTime": at(-30)}),
        [f'{FIRST}.startTime: Invalid value: "{at(-30)}": must be set to the present time'],
    ),
    "it begins again": told(
        RUNNING,
        {**RUNNING, "startTime": at(0)},
        f"{FIRST}.startTime: Invalid value: null: field cannot be modified once set",
        # The heartbeat is as before, and not looked at.
    ),
    "it never began": told(
        {"startTime": at(-HOUR)},
        {},
        f"{FIRST}.startTime: Invalid value: null: field cannot be cleared once set",
    ),
    "a heartbeat of before": told(
        RUNNING,
        {**RUNNING, "heartbeatTime": at(-2 * MINUTE)},
        f'{FIRST}.heartbeatTime: Invalid value: "{at(-2 * MINUTE)}": cannot be decreased',
    ),
    "a heartbeat to come": told(
        RUNNING,
        {**RUNNING, "heartbeatTime": at(MINUTE)},
        f'{FIRST}.heartbeatTime: Invalid value: "{at(MINUTE)}": must be set to the present time',
    ),
    "a heartbeat before it began": (
        {},
        status("Active", first={"startTime": at(10), "heartbeatTime": at(0)}),
        [f'{FIRST}.heartbeatTime: Invalid value: "{at(0)}": must occur after {FIRST}.startTime'],
    ),
    "no heartbeat any more": told(
        RUNNING,
        {"startTime": RUNNING["startTime"]},
        f"{FIRST}.heartbeatTime: Required value: is required once set",
    ),
    "an end in the past": told(
        RUNNING,
        {**RUNNING, "expectedCompletionTime": at(-MINUTE)},
        f'{FIRST}.expectedCompletionTime: Invalid value: "{at(-MINUTE)}": cannot be set to the past time',
    ),
    "an end in eleven years": told(
        RUNNING,
        {**RUNNING, "expectedCompletionTime": at(11 * 365 * 24 * HOUR)},
        f'{FIRST}.expectedCompletionTime: Invalid value: "{at(11 * 365 * 24 * HOUR)}": must complete within ',
    ),
    "an end before it began": told(
        RUNNING,
        {**RUNNING, "expectedCompletionTime": at(-3 * HOUR)},
        f'{FIRST}.expectedCompletionTime: Invalid value: "{at(-3 * HOUR)}": must occur after {FIRST}',
    ),
    "it ended before": told(
        RUNNING,
        {**RUNNING, "completionTime": at(-MINUTE)},
        f'{FIRST}.completionTime: Invalid value: "{at(-MINUTE)}": must be set to the present time',
    ),
    "it ends again": told(
        DONE,
        {**DONE, "completionTime": at(0)},
        f"{FIRST}.completionTime: Invalid value: null: field cannot be modified once set",
    ),
    "it never ended": told(
        DONE, RUNNING, f"{FIRST}.completionTime: Invalid value: null: field cannot be cleared once set"
    ),
    "times of one that has not begun": (
        {},
        status(
            "Active",
            "Inactive",
            first=STARTED,
            second={"heartbeatTime": at(0), "expectedCompletionTime": at(0), "completionTime": at(0)},
        ),
        [
            f'{RESPONDERS}[1].{field}: Invalid value: "{at(0)}": cannot be set before {RESPONDERS}[1].start'
            for field in ("heartbeatTime", "expectedCompletionTime", "completionTime")
        ],
    ),
    "much to tell": told(RUNNING, {**RUNNING, "message": "é" * 4_000}),
    "too much to tell": told(
        RUNNING,
        {**RUNNING, "message": "a" * 4_001},
        f"{FIRST}.message: Too long: may not be more than 4000 characters",
    ),
    "one whose turn it is not": (
        status("Active", "Inactive", first=RUNNING),
        status("Active", "Inactive", first=RUNNING, second={"message": "Me!"}),
        [f"{RESPONDERS}[1]: Invalid value: {{"],
    ),
}

# What else is in a status.
OTHERS: Final[dict[str, Case]] = {
    "less was seen": (
        {"observedGeneration": 2},
        {"observedGeneration": 1},
        ["status.observedGeneration: Invalid value: 1: may not be decreased from 2"],
    ),
    "it has ended": ({"conditions": [condition()]}, EVICTED, []),
    "it has not ended after all": (
        EVICTED,
        {"conditions": [condition()]},
        ["status.conditions: Invalid value: [{"],
    ),
    "it has never ended": (
        FAILED,
        {},
        ["status.conditions: Invalid value: []: Failed condition status cannot "],
    ),
    "other conditions may change": (
        {"conditions": [condition("Delayed", "True")]},
        {"conditions": [condition("Delayed")]},
        [],
    ),
    "requesters come and go": (
        {"requesters": [{"name": "a.example.com/b", "intent": "Withdrawn"}]},
        {"requesters": [{"name": "c.example.com/b", "intent": "Eviction"}]},
        [],
    ),
    "a requester without anything": (
        {},
        {"requesters": [{}]},
        ["status.requesters[0].name: Required value", "status.requesters[0].intent: Required value"],
    ),
    "a requester of Kubernetes": ({}, {"requesters": [{"name": "k8s.io/a", "intent": "Eviction"}]}, []),
    "a requester twice": (
        {},
        {"requesters": [{"name": "a.b/c", "intent": "Eviction"}, {"name": "a.b/c", "intent": "Withdrawn"}]},
        ['status.requesters[1]: Duplicate value: "a.b/c"'],
    ),
    "too many requesters": (
        {},
        {"requesters": [{"name": f"a.b/{each}", "intent": "Eviction"} for each in range(101)]},
        ["status.requesters: Too many: 101: must have at most 100 items"],
    ),
}
CASES: Final = {**TURNS, **TOLD, **OTHERS}


@pytest.mark.parametrize(("before", "now", "beginnings"), CASES.values(), ids=CASES)
def test_statuses(before: Document, now: Document, beginnings: list[str]) -> None:
    written = EVICTION.update({"status": now, "spec": {}}, "status", stored={"status": before})
    assert_texts_begin(written.texts, beginnings)
    assert written.document["spec"] == EVICTION.create().document["spec"]


def test_the_target_is_given_once() -> None:
    assert EVICTION.create({"status": EVICTED}).texts == []
    assert EVICTION.create({"status": EVICTED}).document["status"] == {}
    assert_texts_begin(EVICTION.create({"spec.target": {}}).texts, ["spec.target: Invalid value: "])
    changes: Changes = {"spec.target.pod.name": "other"}
    assert_texts_begin(EVICTION.update(changes).texts, ["spec.target: Invalid value: "])
    assert EVICTION.update({"metadata.labels": {"a.b/c": "requester"}}).texts == []


def test_it_is_the_same_in_protobuf() -> None:
    requesters = [{"name": "a.b/c", "intent": "Eviction"}]
    message = {**DONE, "expectedCompletionTime": at(0), "message": "a"}
    full = {**status("Completed", first=message), **EVICTED, "requesters": requesters}
    document = EVICTION.completed({"status": full})
    again = {**document, **EVICTION.resource.from_protobuf(EVICTION.resource.to_protobuf(document))}
    assert without_nulls(again) == without_nulls(document)
