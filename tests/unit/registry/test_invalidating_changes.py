"""Which change has made an object invalid."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import orjson
import pytest

from apiserver.meta.errors import ApiError, BadRequest, Conflict, Invalid
from apiserver.meta.field_errors import FieldError, invalid, not_supported, required
from apiserver.meta.vocabulary import Document, GroupKind, GroupResource
from apiserver.registry.invalidating_changes import causes

KIND: Final = GroupKind("", "Widget")


class Change(NamedTuple):
    before: bytes
    after: bytes


def states(*documents: Any) -> Sequence[Change]:
    """Changes from each state to the next one."""
    encoded = [orjson.dumps({"metadata": {}, **each}) for each in documents]
    return [Change(*pair) for pair in pairwise(encoded)]


def refusal_of(document: Document) -> ApiError | None:
    """The rules of a Widget: a size of at most 10, the color red, the template `a`, items with names; and it
    stays in its namespace.
    """
    if document.get("namespace"):
        return BadRequest("it has moved")
    errors: list[FieldError] = []
    if "size" not in document:
        errors.append(required("size"))
    elif document["size"] > 10:
        errors.append(invalid("size", document["size"], "must be at most 10"))
    for index, item in enumerate(document.get("items", ())):
        if "name" not in item:
            errors.append(required(f"items[{index}].name"))
    if document.get("template", "a") != "a":
        errors.append(invalid("template", document["template"], "field is immutable"))
    if document.get("color", "red") != "red":
        errors.append(not_supported("color", document["color"], ["red"]))
    return Invalid(KIND, "a", errors) if errors else None


TOO_LARGE: Final = ("size: Invalid value: must be at most 10", "size (FieldValueInvalid)")
# The states of an object, and the errors by the indices of the changes that have caused them.
CASES: Final[dict[str, tuple[Sequence[Any], dict[int, list[tuple[str, str]]]]]] = {
    "a change that makes it invalid": ([{"size": 1}, {"size": 11}], {0: [TOO_LARGE]}),
    "a change beside it": ([{"size": 1}, {"size": 1, "a": 1}, {"size": 11, "a": 1}], {1: [TOO_LARGE]}),
    "a change of what is invalid already": ([{"size": 11}, {"size": 11, "a": 1}], {}),
    "a change to another invalid value": ([{"size": 1}, {"size": 12}, {"size": 11}], {0: [TOO_LARGE]}),
    "one that was mended meanwhile": (
        [{"size": 1}, {"size": 12}, {"size": 2}, {"size": 11}],
        {2: [TOO_LARGE]},
    ),
    "the client's error with another value": ([{"size": 11}, {"size": 22}], {}),
    "the client's error that quotes another value": (
        [{"size": 1, "template": "b"}, {"size": 1, "template": "b and more"}],
        {},
    ),
    "the client's error at another index": (
        [{"size": 1, "items": [{}]}, {"size": 1, "items": [{"name": "first"}, {}]}],
        {},
    ),
    "a wrong item that another function has moved": (
        [
            {"size": 1, "items": []},
            {"size": 1, "items": [{}]},
            {"size": 1, "items": [{"name": "first"}, {}]},
        ],
        {0: [("items[1].name: Required value", "items[1].name (FieldValueRequired)")]},
    ),
    "a field that the client has left out": ([{}, {"size": 11}], {0: [TOO_LARGE]}),
    "a field that is removed": (
        [{"size": 1}, {}],
        {0: [("size: Required value", "size (FieldValueRequired)")]},
    ),
    "one of two errors is the client's": ([{"size": 1, "color": "blue"}, {"size": 11, "color": "blue"}], {}),
    "two changes": (
        [{"size": 1}, {"size": 11}, {"size": 11, "color": "blue"}],
        {
            0: [TOO_LARGE],
            1: [
                (
                    'color: Unsupported value: "blue": supported values: "red"',
                    "color (FieldValueNotSupported)",
                )
            ],
        },
    ),
    "an error without a field": (
        [{"size": 1}, {"size": 1, "namespace": "b"}],
        {0: [("it has moved", "metadata")]},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_who_has_caused_the_errors(case: str) -> None:
    documents, expected = CASES[case]
    refused = refusal_of(dict(documents[-1]))
    assert refused is not None
    assert causes(states(*documents), refused, refusal_of) == expected


def test_what_happens_between_two_changes_is_caused_by_neither() -> None:
    first, last = states({"size": 1}, {"size": 2})[0], states({"size": 11}, {"size": 11, "a": 1})[0]
    refused = refusal_of({"size": 11})
    assert refused is not None
    assert causes([first, last], refused, refusal_of) == {}


def test_what_something_else_has_mended_is_no_longer_caused_by_the_change_before() -> None:
    """As a webhook between two functions."""
    first, last = states({"size": 1}, {"size": 12})[0], states({"size": 2}, {"size": 11})[0]
    refused = refusal_of({"size": 11})
    assert refused is not None
    assert causes([first, last], refused, refusal_of) == {1: [TOO_LARGE]}


def test_an_error_that_the_object_itself_does_not_have_has_another_cause() -> None:
    """As a conflict with another writer, or what a plugin checks."""
    assert causes(states({"size": 1}, {"size": 2}), CONFLICT, refusal_of) == {}


CONFLICT: Final = Conflict(GroupResource("", "widgets"), "a")


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_a_conflict_is_caused_by_whoever_changes_what_the_client_expects(field: str) -> None:
    changes = states({"metadata": {field: "1"}}, {"metadata": {field: "2"}})

    def refused(document: Document) -> ApiError | None:
        return CONFLICT if document["metadata"][field] == "2" else None

    assert list(causes(changes, CONFLICT, refused)) == [0]


def test_a_conflict_with_another_writer_costs_no_validation() -> None:
    def asked(_: Document) -> ApiError | None:
        raise AssertionError("validated")

    expected = {"uid": "1", "resourceVersion": "1"}
    changes = states({"metadata": expected}, {"metadata": {**expected, "labels": {"a": "b"}}})
    assert causes(changes, CONFLICT, asked) == {}


@pytest.mark.parametrize("text", ['"' * 200_000, '"a' * 100_000, '\\"' * 100_000, '"\\' * 100_000])
def test_the_text_of_an_error_takes_linear_time(text: str) -> None:
    def refused(_: Document) -> ApiError | None:
        return BadRequest(text)

    began = time.process_time()
    assert causes(states({"size": 1}, {"size": 2}), BadRequest(text), refused) == {}
    assert time.process_time() - began < 1.0
