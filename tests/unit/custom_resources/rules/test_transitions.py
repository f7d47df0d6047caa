"""How rules judge updates: against the old value, and what has not changed. Row R01."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.custom_resources.rules.validator import RuleValidator
from tests.unit.custom_resources.rules.schemas import (
    INT,
    STRING,
    Schema,
    by_key,
    errors,
    object_of,
    ruled,
    warnings,
)

# ---- transitions

# The schema of the field `n`, and whether its rules may name an old value.
RULES: Final[dict[str, tuple[Schema, bool]]] = {
    "none": (INT, False),
    "of the value alone": (ruled(INT, {"rule": "self > 0"}), False),
    "of the old value": (ruled(INT, {"rule": "self > oldSelf"}), True),
    "of the old value, if any": (
        ruled(INT, {"rule": "!oldSelf.hasValue() || self > oldSelf.value()", "optionalOldSelf": True}),
        True,
    ),
    "one of several": (ruled(INT, {"rule": "self > 0"}, {"rule": "self > oldSelf"}), True),
    "in items": (by_key(object_of(k=STRING, n=ruled(INT, {"rule": "self > oldSelf"}))), True),
}


@pytest.mark.parametrize(("schema", "compares"), RULES.values(), ids=RULES)
def test_whether_rules_compare_with_the_old_value(schema: Schema, compares: bool) -> None:
    assert RuleValidator(object_of(spec=object_of(n=schema)), vendor="kubernetes").compares_old == compares


UP: Final = object_of(n=ruled(INT, {"rule": "self >= oldSelf", "message": "only up"}))
BY_KEY: Final = by_key(object_of(k=STRING, n=ruled(INT, {"rule": "self >= oldSelf", "message": "only up"})))
TRANSITIONS: Mapping[str, tuple[Schema, Any, Any, list[str]]] = {
    "not on creation": (UP, {"n": 1}, None, []),
    "not where there was nothing": (UP, {"n": 1}, {}, []),
    "not where nothing is any more": (UP, {}, {"n": 1}, []),
    "upwards": (UP, {"n": 2}, {"n": 1}, []),
    "downwards": (UP, {"n": 1}, {"n": 2}, ["spec.n: Invalid value: 1: only up"]),
    "items by their keys": (
        BY_KEY,
        [{"k": "b", "n": 1}, {"k": "a", "n": 0}],
        [{"k": "a", "n": 1}, {"k": "b", "n": 0}],
        ["spec[1].n: Invalid value: 0: only up"],
    ),
    "an item that is new": (BY_KEY, [{"k": "b", "n": 0}], [{"k": "a", "n": 1}], []),
    "values of maps by their keys": (
        {"type": "object", "additionalProperties": ruled(INT, "self >= oldSelf")},
        {"a": 0, "b": 0},
        {"a": 1},
        ["spec[a]: Invalid value: 0: failed rule: self >= oldSelf"],
    ),
    "unchanged values are judged, too": (
        object_of(n=ruled(INT, {"rule": "self > oldSelf", "message": "more"})),
        {"n": 1},
        {"n": 1},
        ["spec.n: Invalid value: 1: more"],
    ),
}


@pytest.mark.parametrize(("schema", "new", "old", "expected"), TRANSITIONS.values(), ids=TRANSITIONS)
def test_transitions(schema: Schema, new: Any, old: Any, expected: list[str]) -> None:
    assert errors(schema, new, old) == expected


OPTIONAL: Final = object_of(
    n=ruled(
        INT,
        {"rule": "oldSelf.hasValue() || self == 1", "optionalOldSelf": True, "message": "starts at 1"},
        {"rule": "self >= oldSelf.orValue(0)", "optionalOldSelf": True, "message": "only up"},
    )
)


def test_an_old_value_that_may_be_missing() -> None:
    assert errors(OPTIONAL, {"n": 2}) == ["spec.n: Invalid value: 2: starts at 1"]
    assert errors(OPTIONAL, {"n": 2}, {}) == ["spec.n: Invalid value: 2: starts at 1"]
    assert errors(OPTIONAL, {"n": 1}) == []
    assert errors(OPTIONAL, {"n": 2}, {"n": 3}) == ["spec.n: Invalid value: 2: only up"]


# As Kubernetes does, messages get the old value itself, though they are checked for one that may be missing.
MESSAGES: Mapping[str, tuple[str, Any, str]] = {
    "a message gets the old value itself": ("string(oldSelf.orValue(5))", {"n": 3}, "said"),
    "which has no hasValue": ("oldSelf.hasValue() ? 'some' : 'none'", {"n": 3}, "said"),
    "it can be compared": ("oldSelf == optional.none() ? 'none' : 'some'", {"n": 3}, "some"),
    "a message expression needs an old value": ("oldSelf == optional.none() ? 'none' : 'some'", {}, "said"),
    "a message may do without": ("'is ' + string(self)", {}, "is 2"),
}


@pytest.mark.parametrize(("message", "old", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_what_messages_know_of_an_optional_old_value(message: str, old: Any, expected: str) -> None:
    never_so = {
        "rule": "oldSelf.hasValue() && false",
        "optionalOldSelf": True,
        "message": "said",
        "messageExpression": message,
    }
    assert errors(object_of(n=ruled(INT, never_so)), {"n": 2}, old) == [
        f"spec.n: Invalid value: 2: {expected}"
    ]


# ---- what has not changed


SMALL: Final = ruled(INT, {"rule": "self < 10", "message": "small"})
SAME: Mapping[str, tuple[Schema, Any, Any, list[str]]] = {
    "a field": (object_of(n=SMALL, s=STRING), {"n": 50, "s": "b"}, {"n": 50, "s": "a"}, ["spec.n"]),
    "an object": (
        object_of(o=ruled(object_of(n=INT), "false"), s=STRING),
        {"o": {"n": 1}, "s": "b"},
        {"o": {"n": 1}, "s": "a"},
        ["spec.o"],
    ),
    "an item by its key": (
        by_key(object_of(k=STRING, n=SMALL)),
        [{"k": "b", "n": 1}, {"k": "a", "n": 50}],
        [{"k": "a", "n": 50}],
        ["spec[1].n"],
    ),
    "a set that is the same as a whole": (
        object_of(l={"type": "array", "x-kubernetes-list-type": "set", "items": SMALL}, s=STRING),
        {"l": [50], "s": "b"},
        {"l": [50], "s": "a"},
        ["spec.l[0]"],
    ),
}


@pytest.mark.parametrize(("schema", "new", "old", "expected"), SAME.values(), ids=SAME)
def test_what_has_not_changed_gives_warnings(schema: Schema, new: Any, old: Any, expected: list[str]) -> None:
    assert [text.partition(":")[0] for text in warnings(schema, new, old)] == expected


CHANGED: Mapping[str, tuple[Schema, Any, Any]] = {
    "a field": (object_of(n=SMALL), {"n": 51}, {"n": 50}),
    "one is not true": (object_of(n=ruled({}, "false")), {"n": 1}, {"n": True}),
    "a set that has changed": (
        {"type": "array", "x-kubernetes-list-type": "set", "items": SMALL},
        [50, 1],
        [50],
    ),
    "an atomic list that has changed": (
        {"type": "array", "x-kubernetes-list-type": "atomic", "items": SMALL},
        [50, 1],
        [50],
    ),
    "a list without a type that has changed": ({"type": "array", "items": SMALL}, [50, 1], [50]),
    "a field that is new": (object_of(n=SMALL), {"n": 50}, {}),
}


@pytest.mark.parametrize(("schema", "new", "old"), CHANGED.values(), ids=CHANGED)
def test_what_has_changed_gives_errors(schema: Schema, new: Any, old: Any) -> None:
    assert len(errors(schema, new, old)) == 1


def test_rules_that_cannot_be_evaluated_are_errors_even_if_nothing_has_changed() -> None:
    schema = object_of(n=ruled(INT, "1 / self > 0"), s=STRING)
    assert len(errors(schema, {"n": 0, "s": "b"}, {"n": 0, "s": "a"})) == 1


def never(schema: Schema) -> Schema:
    return ruled(schema, {"rule": "false", "message": "never"})


NEVER: Final = never(
    object_of(
        n=never(INT),
        s=never({"type": "array", "x-kubernetes-list-type": "set", "items": never(STRING)}),
        l=never({"type": "array", "items": never({"type": "array", "items": never(INT)})}),
        m=never({"type": "object", "additionalProperties": never({**STRING, "nullable": True})}),
        k=never(by_key(never(object_of(k=never(STRING), v=never(INT))))),
    )
)
INTS: Final = st.integers(-3, 3)
LETTERS: Final = st.sampled_from("abc")
ITEM: Final = st.fixed_dictionaries({"k": LETTERS}, optional={"v": INTS})
OBJECTS: Final = st.fixed_dictionaries(
    {},
    optional={
        "n": INTS,
        "s": st.lists(LETTERS, unique=True),
        "l": st.lists(st.lists(INTS)),
        "m": st.dictionaries(LETTERS, st.none() | LETTERS),
        "k": st.lists(ITEM, unique_by=lambda item: item["k"]),
    },
)


@given(OBJECTS)
def test_an_update_that_changes_nothing_is_never_refused(spec: dict[str, Any]) -> None:
    assert warnings(NEVER, spec, deepcopy(spec))


@given(OBJECTS, OBJECTS)
def test_every_violation_is_an_error_or_a_warning(new: dict[str, Any], old: dict[str, Any]) -> None:
    rules = RuleValidator(object_of(spec=NEVER), vendor="kubernetes")
    created = rules.validate({"spec": new}, is_bounded=False).errors
    updated = rules.validate({"spec": new}, {"spec": old}, is_bounded=False)
    assert sorted(map(str, [*updated.errors, *updated.warnings])) == sorted(map(str, created))
    assert bool(updated.errors) == (without_order(new) != without_order(old))


def without_order(spec: dict[str, Any]) -> dict[str, Any]:
    """Without the order of the list that is a map."""
    return {**spec, "k": sorted(spec["k"], key=lambda item: item["k"])} if "k" in spec else spec
