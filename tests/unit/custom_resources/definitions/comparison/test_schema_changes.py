"""Whether changes of a schema are breaking."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.custom_resources.definitions.comparison.schema_changes import SchemaComparison
from apiserver.custom_resources.schemas.validation import SchemaValidator
from apiserver.schema.extensions import Extensions
from tests.support.schema_changes import CHANGED, REFUSED, SCHEMA_CHANGES, Schema, SchemaChange

X: Final = Extensions("kubernetes")


def changes(old: Schema, new: Schema) -> list[str]:
    """The kind and the path of each change below the field; breaking ones begin with `!`."""
    roots = [{"type": "object", "properties": {"f": schema}} for schema in (old, new)]
    return [
        f"{'!' * change.is_breaking}{change.kind} {change.path.removeprefix('f')}"
        for change in SchemaComparison(X).changes(*roots)
    ]


@pytest.mark.parametrize("change", SCHEMA_CHANGES.values(), ids=SCHEMA_CHANGES)
def test_what_is_breaking(change: SchemaChange) -> None:
    assert changes(change.old, change.new) == change.expected


def test_the_table_is_long_and_agrees_with_itself() -> None:
    """A server says the same of the values: see tests/server/test_crd_commands.py."""
    assert len(SCHEMA_CHANGES) > 80
    for change in SCHEMA_CHANGES.values():
        is_breaking = any(each.startswith("!") for each in change.expected)
        assert is_breaking or change.outcome != REFUSED
        if change.outcome == CHANGED and not is_breaking:
            assert "DefaultAdded .a" in change.expected


def test_no_schema_breaks_itself() -> None:
    for change in SCHEMA_CHANGES.values():
        assert changes(change.old, change.old) == []
        assert changes(change.new, change.new) == []


def test_metadata_and_types_are_always_there() -> None:
    plain: Schema = {"type": "object", "properties": {}}
    typed: Schema = {
        "type": "object",
        "properties": {"apiVersion": {"type": "string"}, "metadata": {"type": "object"}},
    }
    assert SchemaComparison(X).changes(plain, typed) == SchemaComparison(X).changes(typed, plain) == []
    short = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}
    (change,) = SchemaComparison(X).changes(plain, {"type": "object", "properties": {"metadata": short}})
    assert (change.kind, change.path, change.is_breaking) == ("MaxLengthLowered", "metadata.name", True)


SMALL: Final = st.integers(-3, 6)
INTEGERS: Final = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": SMALL,
        "maximum": SMALL,
        "exclusiveMinimum": st.booleans(),
        "exclusiveMaximum": st.booleans(),
        "multipleOf": st.integers(1, 4),
        "enum": st.lists(SMALL, min_size=1, max_size=4),
        "format": st.sampled_from(["int32", "int64", "float", "odd"]),
        "nullable": st.booleans(),
    },
)
STRINGS: Final = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "minLength": st.integers(0, 3),
        "maxLength": st.integers(0, 4),
        "pattern": st.sampled_from(["", "^", ".*", "^a", "b$"]),
        "format": st.sampled_from(["ipv4", "uuid", "uuid4", "date-time", "odd"]),
        "enum": st.lists(st.sampled_from(["", "a", "ab", "b"]), min_size=1, max_size=3),
        "anyOf": st.lists(st.sampled_from([{"maxLength": 1}, {"minLength": 1}]), min_size=1, max_size=2),
        "not": st.just({"pattern": "^b"}),
        "nullable": st.booleans(),
    },
)
NUMBERS: Final = [None, *range(-4, 8), 0.5, 2.5, 3e9, 1e39]
TEXTS: Final = ["", "a", "ab", "abb", "b", "1.2.3.4", "aaaa", None]


def are_sound(old: dict[str, Any], new: dict[str, Any], values: list[Any]) -> None:
    """What is not breaking allows all values that were allowed."""
    was_valid, is_valid = (SchemaValidator(schema, X).is_valid for schema in (old, new))
    refused = [value for value in values if was_valid(value) and not is_valid(value)]
    found = changes(old, new)
    assert not refused or any(each.startswith("!") for each in found), (refused, found)


@given(INTEGERS, INTEGERS)
def test_no_change_of_numbers_is_overlooked(old: dict[str, Any], new: dict[str, Any]) -> None:
    are_sound(old, new, NUMBERS)


@given(STRINGS, STRINGS)
def test_no_change_of_strings_is_overlooked(old: dict[str, Any], new: dict[str, Any]) -> None:
    are_sound(old, new, TEXTS)


@given(st.data())
def test_values_that_can_be_tried_are_decided_exactly(data: st.DataObject) -> None:
    low, high = sorted(data.draw(st.tuples(SMALL, SMALL)))
    old = {"type": "integer", "minimum": low, "maximum": high}
    new = {**data.draw(INTEGERS), "type": "integer"}
    new.pop("nullable", None)
    is_valid = SchemaValidator(new, X).is_valid
    refused = [value for value in range(low, high + 1) if not is_valid(value)]
    assert bool(refused) is any(each.startswith("!") for each in changes(old, new))
