"""The columns of Tables (rows D07-D10), their cells, and ages."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta import table
from apiserver.meta.selectors import parse_label_selector
from apiserver.meta.table import Column
from apiserver.meta.vocabulary import Document

NOW: Final = 1_700_000_000.0
OBJECT: Final[Document] = {
    "metadata": {"name": "a", "creationTimestamp": "2023-11-14T22:08:20Z"},
    "spec": {"replicas": 0, "paused": False, "nothing": None},
    "data": {"x": "1", "y": "2"},
    "binaryData": {"z": "AA=="},
}


def test_a_type_without_columns_shows_name_and_creation() -> None:
    """Rows D08, D09."""
    name, created = table.DEFAULT.definitions
    assert (name["name"], name["type"], name["format"], name["priority"]) == ("Name", "string", "name", 0)
    assert (created["name"], created["type"], created["format"]) == ("Created At", "date", "")
    for definition in (name, created):
        assert list(definition) == ["name", "type", "format", "description", "priority"]
        assert definition["description"]
    assert table.DEFAULT.cells(OBJECT, NOW) == ["a", "2023-11-14T22:08:20Z"]


def test_columns_begin_with_the_name_and_keep_their_order() -> None:
    wide = Column("Wide", table.field_cell("spec", "replicas"), type="integer", priority=1)
    columns = table.columns(wide, table.AGE)
    assert [each["name"] for each in columns.definitions] == ["Name", "Wide", "Age"]
    assert columns.definitions[1]["priority"] == 1
    assert columns.cells(OBJECT, NOW) == ["a", 0, "5m"]


PATHS: Final[dict[str, tuple[tuple[str, ...], Any]]] = {
    "text": (("metadata", "name"), "a"),
    "zero is a value": (("spec", "replicas"), 0),
    "false is a value": (("spec", "paused"), False),
    "null is none": (("spec", "nothing"), "?"),
    "an absent field": (("spec", "absent"), "?"),
    "an absent branch": (("status", "absent"), "?"),
    "a step into a text": (("metadata", "name", "first"), "?"),
}


@pytest.mark.parametrize(("steps", "shown"), PATHS.values(), ids=PATHS)
def test_a_cell_shows_the_field_at_a_path(steps: tuple[str, ...], shown: Any) -> None:
    assert table.field_cell(*steps, default="?")(OBJECT, NOW) == shown


def test_a_cell_counts_entries_of_several_fields() -> None:
    assert table.count("data", "binaryData", "absent")(OBJECT, NOW) == 3
    assert table.count("data")({"data": None}, NOW) == 0


MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR: Final = 365 * DAY
# k8s.io/apimachinery, pkg/util/duration, HumanDuration: the last of one form, the first of the next.
DURATIONS: Final = {
    "<invalid>": -2,
    "0s": -1,
    "119s": 119.9,
    "2m": 120,
    "2m1s": 121,
    "9m59s": 10 * MINUTE - 1,
    "10m": 10 * MINUTE,
    "179m": 3 * HOUR - 1,
    "3h": 3 * HOUR,
    "3h1m": 3 * HOUR + MINUTE + 59,
    "7h59m": 8 * HOUR - 1,
    "8h": 8 * HOUR,
    "47h": 2 * DAY - 1,
    "2d": 2 * DAY,
    "2d1h": 2 * DAY + HOUR,
    "7d23h": 8 * DAY - 1,
    "8d": 8 * DAY,
    "729d": 2 * YEAR - 1,
    "2y": 2 * YEAR,
    "2y1d": 2 * YEAR + DAY,
    "7y364d": 8 * YEAR - 1,
    "8y": 8 * YEAR,
    "100y": 100 * YEAR + 364 * DAY,
    "292y": 2026 * YEAR,  # Go's longest duration
}


@pytest.mark.parametrize(("shown", "seconds"), DURATIONS.items(), ids=DURATIONS)
def test_time_spans_are_formatted(shown: str, seconds: float) -> None:
    assert table.duration(seconds) == shown


AGES: Final[dict[str, tuple[str | None, str]]] = {
    "past": ("2023-11-14T22:08:20Z", "5m"),
    "this second": ("2023-11-14T22:13:20Z", "0s"),
    "a clock a second ahead": ("2023-11-14T22:13:21Z", "0s"),
    "the year 0": ("0000-01-01T00:00:00Z", "292y"),
    "the year 10000": ("10000-01-01T00:00:00Z", "<invalid>"),
    "the future": ("2023-11-14T22:13:25Z", "<invalid>"),
    "unknown": (None, "<unknown>"),
    "empty": ("", "<unknown>"),
    "no time": ("yesterday", "<unknown>"),
}


@pytest.mark.parametrize(("created", "shown"), AGES.values(), ids=AGES)
def test_how_old_an_object_is(created: str | None, shown: str) -> None:
    assert table.age({"metadata": {"creationTimestamp": created}}, NOW) == shown


def expression(key: str, operator: str, *values: str) -> Document:
    return {"key": key, "operator": operator, "values": list(values)}


SELECTORS: Final[dict[str, tuple[Document | None, str]]] = {
    "none": (None, "<none>"),
    "everything": ({}, "<none>"),
    "nulls": ({"matchLabels": None, "matchExpressions": None}, "<none>"),
    "labels, sorted": ({"matchLabels": {"b": "c", "a": "d"}}, "a=d,b=c"),
    "one of some values": ({"matchExpressions": [expression("a", "In", "b", "c")]}, "a in (b,c)"),
    "none of some values": ({"matchExpressions": [expression("a", "NotIn", "b")]}, "a notin (b)"),
    "there": ({"matchExpressions": [expression("a", "Exists")]}, "a"),
    "not there": ({"matchExpressions": [expression("a", "DoesNotExist")]}, "!a"),
    "labels and expressions": (
        {"matchLabels": {"a": "b"}, "matchExpressions": [expression("c", "Exists")]},
        "a=b,c",
    ),
    # FormatLabelSelector sorts requirements by key, and the values of each.
    "expressions sorted among labels": (
        {"matchLabels": {"b": "c"}, "matchExpressions": [expression("a", "Exists")]},
        "a,b=c",
    ),
    "values sorted": ({"matchExpressions": [expression("a", "In", "c", "b")]}, "a in (b,c)"),
}


@pytest.mark.parametrize(("selector", "shown"), SELECTORS.values(), ids=SELECTORS)
def test_label_selectors_are_formatted(selector: Document | None, shown: str) -> None:
    assert table.selector_text(selector) == shown


_word: Final = st.sampled_from(["a", "b", "in", "example.com/c"])
_value: Final = st.sampled_from(["", "x", "y", "notin"])
_operator: Final = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"])


@given(
    st.dictionaries(_word, _value, max_size=3),
    st.lists(st.tuples(_word, _operator, st.lists(_value, min_size=1, max_size=3)), max_size=3),
    st.dictionaries(_word, _value),
)
def test_the_text_of_a_selector_selects_the_same(
    labels: dict[str, str], expressions: list[tuple[str, str, list[str]]], tried: dict[str, str]
) -> None:
    found = [expression(key, operator, *values) for key, operator, values in expressions]
    shown = table.selector_text({"matchLabels": labels, "matchExpressions": found})
    does = all(tried.get(key) == value for key, value in labels.items()) and all(
        {
            "In": tried.get(key) in values,
            "NotIn": tried.get(key) not in values,
            "Exists": key in tried,
            "DoesNotExist": key not in tried,
        }[operator]
        for key, operator, values in expressions
    )
    selector = parse_label_selector("" if shown == "<none>" else shown)
    assert selector.conditions.test()(tried) is does


def test_names_are_joined_by_commas() -> None:
    assert table.joined([{"name": "a"}, {"name": "b"}, {}], "name") == "a,b,"
    assert table.joined([], "name") == ""
