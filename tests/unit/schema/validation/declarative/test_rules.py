"""What declared rules find. Rows H05, H06."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from apiserver.meta.field_errors import invalid, required
from apiserver.registry.declarative_validation import differences
from apiserver.schema.validation.declarative.rules import DeclaredRules, migrated_types

RULES: Final = DeclaredRules(
    (
        "spec.count minimum=1",
        "spec.most required minimum=1",
        "spec.name required immutable",
        "spec.kind enum=A,B",
        "spec.items maxItems=2",
        "spec.items[*].key required",
        "spec.ref immutable",
        "spec.ref?.name required",
        "spec.wrapped.name required",
        "spec.mode.queue member=type:Queue,required member=type:Reject,forbidden",
        "status.conditions zeroOrOneOf=type:Approved,Denied",
    )
)
VALID: Final[dict[str, Any]] = {
    "spec": {"most": 1, "name": "n", "wrapped": {"name": "w"}, "items": [{"key": "a"}], "mode": {}}
}
APPROVED, DENIED = {"type": "Approved"}, {"type": "Denied"}


def changed(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the valid document with some fields of its spec, or its conditions, changed."""
    spec = VALID["spec"] | {name: value for name, value in changes.items() if name != "conditions"}
    document = {"spec": {name: value for name, value in spec.items() if value is not None}}
    if "conditions" in changes:
        document["status"] = {"conditions": changes["conditions"]}
    return document


def told(new: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
    return [str(error) for error in RULES.errors(new, old)]


MINIMUM: Final = "must be greater than or equal to 1"
CREATES: Final[dict[str, tuple[Mapping[str, Any], list[str]]]] = {
    "all is right": ({}, []),
    "absent, and nothing requires it": ({"count": None, "kind": "", "items": []}, []),
    "too small": ({"count": 0}, [f"spec.count: Invalid value: 0: {MINIMUM}"]),
    # In Go a number that is absent is 0: what is required ends the checks of its field.
    "required number": ({"most": 0}, ["spec.most: Required value"]),
    "required number that is too small": ({"most": -1}, [f"spec.most: Invalid value: -1: {MINIMUM}"]),
    "required text": ({"name": ""}, ["spec.name: Required value"]),
    "not of the enum": ({"kind": "C"}, ['spec.kind: Unsupported value: "C": supported values: "A", "B"']),
    "too many items, which are not looked at": (
        {"items": [{}, {}, {}]},
        ["spec.items: Too many: 3: must have at most 2 items"],
    ),
    "an item's field": ({"items": [{"key": "a"}, {}]}, ["spec.items[1].key: Required value"]),
    "a pointer to nothing": ({"ref": None}, []),
    "a pointer": ({"ref": {}}, ["spec.ref.name: Required value"]),
    "no pointer": ({"wrapped": None}, ["spec.wrapped.name: Required value"]),
    "a member that is missing": ({"mode": {"type": "Queue"}}, ["spec.mode.queue: Required value"]),
    "a member that is there": ({"mode": {"type": "Queue", "queue": {}}}, []),
    "a member of another": ({"mode": {"type": "Reject", "queue": {}}}, ["spec.mode.queue: Forbidden"]),
    "one of two": ({"conditions": [APPROVED, APPROVED]}, []),
}


@pytest.mark.parametrize(("changes", "expected"), CREATES.values(), ids=CREATES)
def test_new_objects(changes: Mapping[str, Any], expected: list[str]) -> None:
    assert told(changed(changes), None) == expected


def test_conditions_that_exclude_each_other() -> None:
    (error,) = RULES.errors(changed({"conditions": [DENIED, {"type": "Failed"}, APPROVED]}), None)
    assert (error.field, error.reason, error.origin) == (
        "status.conditions",
        "FieldValueInvalid",
        "zeroOrOneOf",
    )
    assert error.message.endswith(
        'must specify at most one of: conditions[{"type":"Approved"}], conditions[{"type":"Denied"}]'
    )


# Before, after, and what is told: what was wrong before and stays is not told again, wherever an item stands.
UPDATES: Final[dict[str, tuple[Mapping[str, Any], Mapping[str, Any], list[str]]]] = {
    "nothing changes": ({}, {}, []),
    "what may not change": (
        {"name": "a"},
        {"name": "b"},
        ['spec.name: Invalid value: "b": field is immutable'],
    ),
    "what may not go": (
        {"name": "a"},
        {"name": ""},
        ["spec.name: Required value", 'spec.name: Invalid value: "": field is immutable'],
    ),
    "an object that may not change": (
        {"ref": {"name": "a"}},
        {"ref": {"name": "b"}},
        ['spec.ref: Invalid value: {"name":"b"}: field is immutable'],
    ),
    "an empty text is an absent one": ({"ref": {"name": "a"}}, {"ref": {"name": "a", "more": ""}}, []),
    "wrong before and after": ({"count": 0, "kind": "C"}, {"count": 0, "kind": "C"}, []),
    "wrong in another way": ({"count": 0}, {"count": -1}, [f"spec.count: Invalid value: -1: {MINIMUM}"]),
    "an item that moves": ({"items": [{"key": "a"}, {"x": 1}]}, {"items": [{"x": 1}, {"key": "a"}]}, []),
    "an item that comes": (
        {"items": [{"x": 1}]},
        {"items": [{"x": 1}, {"x": 2}]},
        ["spec.items[1].key: Required value"],
    ),
    "another type of the same members": (
        {"mode": {"type": "Queue", "queue": {}}},
        {"mode": {"type": "Reject", "queue": {}}},
        ["spec.mode.queue: Forbidden"],
    ),
    "members that were wrong before": (
        {"mode": {"type": "Reject", "queue": {}}},
        {"mode": {"type": "Reject", "queue": {"x": 1}}},
        [],
    ),
    "both conditions before": ({"conditions": [APPROVED, DENIED]}, {"conditions": [DENIED, APPROVED]}, []),
}


@pytest.mark.parametrize(("before", "after", "expected"), UPDATES.values(), ids=UPDATES)
def test_changes(before: Mapping[str, Any], after: Mapping[str, Any], expected: list[str]) -> None:
    assert told(changed(after), changed(before)) == expected


def test_which_errors_of_the_code_are_covered() -> None:
    """An invalid value may be invalid for many reasons; what is missing is missing."""
    assert RULES.covers(required("spec.items[12].key", "whatever the code says"))
    assert RULES.covers(invalid("spec.count", 0, "too small", origin="minimum"))
    assert not RULES.covers(invalid("spec.count", 0, "must be even"))
    assert not RULES.covers(required("spec.count"))
    assert not RULES.covers(required("spec.items[0].other"))


def test_what_only_one_way_finds_is_a_difference() -> None:
    """Texts may differ; of the code only what the rules look for is compared."""
    coded = [required("spec.name", "a name"), required("spec.most"), required("spec.other")]
    declared = [required("spec.name"), invalid("spec.count", 0, "secret", origin="minimum")]
    assert differences(coded, declared, RULES.covers) == [
        "only the code finds spec.most: FieldValueRequired",
        "only the rules find spec.count: FieldValueInvalid (minimum)",
    ]


def test_an_unknown_marker_is_a_fault_of_the_table() -> None:
    with pytest.raises(KeyError):
        DeclaredRules(["spec.a maximal=1"])


def test_the_table_is_read() -> None:
    assert len(migrated_types()) >= 15
