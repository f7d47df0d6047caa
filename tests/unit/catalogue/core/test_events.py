"""Core Events, old ones and new ones. Source: pkg/apis/core/validation, legacyValidateEvent."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind, least

EVENT: Final = ServedKind("events")
OLD: Final = least("Event", involvedObject={"kind": "Pod", "name": "p", "namespace": "ns"})
NEW: Final[dict[str, Any]] = {
    **OLD,
    "eventTime": "2025-01-01T00:00:00.000000Z",
    "reportingComponent": "example.com/c",
    "reportingInstance": "i",
    "action": "Bind",
    "reason": "Scheduled",
}
_ELSEWHERE: Final = "does not match event.namespace"

INVALID: Final[dict[str, tuple[dict[str, Any], Changes, list[str]]]] = {
    "an old one says little": (OLD, {}, []),
    "a new one says enough": (NEW, {}, []),
    "its object is in its namespace": (
        OLD,
        {"involvedObject.namespace": "other"},
        [f'involvedObject.namespace: Invalid value: "other": {_ELSEWHERE}'],
    ),
    "objects without a namespace have their events in default": (
        OLD,
        {"involvedObject.namespace": None, "metadata.namespace": "default"},
        [],
    ),
    "and nowhere else": (
        OLD,
        {"involvedObject.namespace": None},
        [f'involvedObject.namespace: Invalid value: "": {_ELSEWHERE}'],
    ),
    "new ones also in kube-system": (
        NEW,
        {"involvedObject.namespace": None, "metadata.namespace": "kube-system"},
        [],
    ),
    "a new one says who, what and why": (
        NEW,
        {"reportingInstance": None, "action": None, "reason": None},
        ["reportingInstance: Required value", "action: Required value", "reason: Required value"],
    ),
    "and not too much": (
        NEW,
        {"action": "x" * 129, "message": "x" * 1025},
        [
            'action: Invalid value: "": can have at most 128 characters',
            'message: Invalid value: "": can have at most 1024 characters',
        ],
    ),
}


@pytest.mark.parametrize(("event", "changes", "texts"), INVALID.values(), ids=INVALID)
def test_events(event: dict[str, Any], changes: Changes, texts: list[str]) -> None:
    assert EVENT.created(event, changes).texts == texts
    assert EVENT.updated(event, changes).texts == texts


def test_a_new_one_is_reported_by_a_component_with_a_name() -> None:
    errors = EVENT.created(NEW, {"reportingComponent": ""}).errors
    assert {error.field for error in errors} == {"reportingComponent"}
    assert errors[0].reason == "FieldValueRequired"


def test_names_of_events_only_have_to_fit_into_a_path() -> None:
    assert EVENT.strategy.name_rule("Pod.X_1") == []
    assert EVENT.strategy.name_rule("a/b") != []
