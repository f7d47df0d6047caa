"""Which changes are taken back when an object is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson
import pytest

from apiserver.admission.reversible_changes import ReversibleChange, ReversibleChanges
from apiserver.meta.errors import BadRequest, InternalError, Invalid
from apiserver.meta.field_errors import FieldError, invalid
from apiserver.meta.vocabulary import GroupKind

KIND: Final = GroupKind("", "Widget")

# The object before a change, after it, the field of an error, and whether the change may be the reason.
CASES: Final[dict[str, tuple[Any, Any, str, bool]]] = {
    "the field": ({"a": 1}, {"a": 2}, "a", True),
    "another field": ({"a": 1}, {"a": 2}, "b", False),
    "a field whose name begins so": ({"a": 1}, {"a": 2}, "ab", False),
    "a field in it": ({}, {"a": {"b": [{"c": 1}]}}, "a.b[0].c", True),
    "what it is in": ({"a": {"b": 1}}, {"a": {"b": 2}}, "a", True),
    "a field that is gone": ({"a": {"b": 1}}, {"a": {}}, "a.b", True),
    "an item": ({"a": [1, 2]}, {"a": [1, 3]}, "a[1]", True),
    "another item": ({"a": [1, 2]}, {"a": [1, 3]}, "a[0]", False),
    "an item of a longer list": ({"a": [1]}, {"a": [0, 1]}, "a[0]", True),
    "a key with dots": ({"a": {"x.y": 1}}, {"a": {"x.y": 2}}, "a[x.y]", True),
    "another key with dots": ({"a": {"x.y": 1}}, {"a": {"x.y": 2}}, "a[x.z]", False),
    "a number of another type": ({"a": 1}, {"a": 1.0}, "a", True),
    "a boolean instead of a number": ({"a": 1}, {"a": True}, "a", True),
    "null instead of nothing": ({}, {"a": None}, "a", True),
}


def change(before: Any, after: Any, author: str = "f", warnings: Sequence[str] = ()) -> ReversibleChange:
    return ReversibleChange(
        author, orjson.dumps(before), orjson.dumps(after), lambda reason: [*warnings, reason]
    )


def refusal(*errors: FieldError) -> Invalid:
    return Invalid(KIND, "a", errors)


@pytest.mark.parametrize("case", CASES)
def test_the_changes_of_a_field(case: str) -> None:
    before, after, field, is_reason = CASES[case]
    changes = ReversibleChanges()
    changes.made.append(change(before, after))
    found = changes.take_back(refusal(invalid(field, 1, "no")))
    assert found == (orjson.dumps(before) if is_reason else None)
    assert changes.accept() == ([f"{field}: Invalid value: no"] if is_reason else [])


@pytest.mark.parametrize(("field", "is_reason"), [("metadata", True), ("spec", False)])
def test_an_error_without_a_field_is_about_metadata(field: str, is_reason: bool) -> None:
    changes = ReversibleChanges()
    changes.made.append(change({}, {field: {}}))
    assert (changes.take_back(BadRequest("moved")) is not None) == is_reason


def test_only_those_that_have_changed_the_field_are_left_out() -> None:
    changes = ReversibleChanges()
    changes.made += [change({}, {"a": 1}, "one"), change({"a": 1}, {"a": 1, "b": 1}, "other")]
    assert changes.take_back(refusal(invalid("b", 1, "no"))) == b"{}"
    assert [*changes.failures] == ["other"]


def test_an_object_that_is_still_invalid_is_refused_as_that_of_the_client() -> None:
    changes = ReversibleChanges()
    changes.made.append(change({"a": 1}, {"a": 2}))
    errors = refusal(invalid("a", 2, "no"))
    assert changes.take_back(errors) is not None
    assert changes.take_back(errors) is None


def test_an_accepted_object_keeps_its_changes() -> None:
    changes = ReversibleChanges()
    changes.made.append(change({"a": 1}, {"a": 2}))
    assert changes.accept() == []
    assert changes.take_back(refusal(invalid("a", 2, "no"))) is None


def test_a_failure_that_refuses_the_write_is_raised_once_the_object_is_valid_without_it() -> None:
    def fail(reason: str) -> Sequence[str]:
        raise InternalError.of(reason)

    changes = ReversibleChanges()
    changes.made.append(ReversibleChange("f", b'{"a":1}', b'{"a":2}', fail))
    assert changes.take_back(refusal(invalid("a", 2, "no"))) == b'{"a":1}'
    with pytest.raises(InternalError, match="a: Invalid value: no"):
        changes.accept()


def test_few_of_many_errors_are_told() -> None:
    changes = ReversibleChanges()
    changes.made.append(change({}, {"a": [1] * 9}))
    changes.take_back(refusal(*(invalid(f"a[{index}]", 1, "no") for index in range(9))))
    [told] = changes.accept()
    assert told == "a[0]: Invalid value: no, a[1]: Invalid value: no, a[2]: Invalid value: no"
