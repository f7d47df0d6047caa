"""Events of the group events.k8s.io, which are the core group's in another form; row T08.

Source: pkg/apis/events/v1/conversion.go, pkg/apis/core/validation/events.go (release 1.34).
"""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta.vocabulary import Document, GroupKind
from tests.unit.catalogue.served_kinds import Changes, ServedKind, changed

NOW: Final = "2024-05-06T07:08:09.000000Z"
EVENT: Final = ServedKind(
    "events.events.k8s.io",
    {
        "eventTime": NOW,
        "reportingController": "example.com/c",
        "reportingInstance": "c-1",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "note": "it runs",
        "type": "Normal",
    },
)
CORE: Final = ServedKind(
    "events.",
    {"involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "Old", "count": 3},
)


def test_an_event_is_stored_as_one_of_the_core_group() -> None:
    document, errors = EVENT.create()
    assert errors == []
    assert (document["apiVersion"], document["kind"]) == ("v1", "Event")
    assert document["message"] == "it runs"
    assert document["reportingComponent"] == "example.com/c"
    assert document["involvedObject"]["name"] == "p"
    assert (document["source"], document["firstTimestamp"]) == ({}, None)
    assert not document.keys() & {"note", "regarding", "reportingController", "deprecatedSource"}


def test_an_event_of_the_core_group_is_seen() -> None:
    seen = EVENT.resource.codec.from_hub(CORE.create({"message": "m"}).document)
    assert (seen["apiVersion"], seen["note"], seen["deprecatedCount"]) == ("events.k8s.io/v1", "m", 3)
    assert seen["regarding"]["name"] == "p"
    assert seen["deprecatedFirstTimestamp"] is None
    assert "reportingController" not in seen


def test_errors_name_the_kind_of_the_core_group() -> None:
    """As recorded in versions/events-core-to-group; what is not found is named as it was asked for."""
    assert EVENT.resource.group_kind == CORE.resource.group_kind == GroupKind("", "Event")
    assert str(EVENT.resource.group_resource) == "events.events.k8s.io"


TEXTS: Final = st.sampled_from(["", "a", "b"])
EVENTS: Final = st.fixed_dictionaries(
    {
        "note": TEXTS,
        "reportingController": TEXTS,
        "reportingInstance": TEXTS,
        "deprecatedCount": st.integers(0, 2),
    },
    optional={
        "series": st.fixed_dictionaries(
            {"count": st.integers(0, 3)}, optional={"lastObservedTime": st.just(NOW)}
        ),
        "related": st.just({"name": "r"}),
        "deprecatedSource": st.just({"component": "c"}),
    },
)


@given(EVENTS)
def test_nothing_is_lost_on_the_way_there_and_back(fields: dict[str, Any]) -> None:
    """Row S01."""
    document: Document = {**copy.deepcopy(EVENT.valid), **fields}
    EVENT.resource.check(document)
    stored = EVENT.resource.codec.to_hub(copy.deepcopy(document))
    assert EVENT.resource.codec.from_hub(copy.deepcopy(stored)) == document
    as_core = copy.deepcopy(stored)
    CORE.resource.check(as_core)
    assert as_core == stored  # what is stored looks as the core group shows it


INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "its type is one of two": ({"type": "Fatal"}, ['type: Invalid value: "": has invalid value: Fatal']),
    "it says who reports it": (
        {"reportingController": None},
        [
            "reportingController: Required value",
            'reportingController: Invalid value: "": name part must be non-empty',
        ],
    ),
    "it says which process that is": ({"reportingInstance": None}, ["reportingInstance: Required value"]),
    "it says what was done": ({"action": None}, ["action: Required value"]),
    "it says why": ({"reason": None}, ["reason: Required value"]),
    "it has a type": ({"type": None}, ['type: Invalid value: "": has invalid value: ']),
    "it says when": ({"eventTime": None}, ["eventTime: Required value"]),
    "it has none of the old fields": (
        {
            "deprecatedCount": 1,
            "deprecatedSource": {"host": "h"},
            "deprecatedFirstTimestamp": NOW,
            "deprecatedLastTimestamp": NOW,
        },
        [
            f'{name}: Invalid value: "": needs to be unset'
            for name in ("firstTimestamp", "lastTimestamp", "count", "source")
        ],
    ),
    "a series is more than one": (
        {"series": {"count": 1}},
        ['series.count: Invalid value: "": should be at least 2', "series.lastObservedTime: Required value"],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_new_events_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert set(texts) <= set(EVENT.create(changes).texts)


def test_the_core_group_takes_what_this_one_refuses() -> None:
    assert CORE.create().errors == []


def test_only_the_series_goes_on() -> None:
    series = {"series": {"count": 2, "lastObservedTime": NOW}}
    assert EVENT.update(series).errors == []
    texts = EVENT.update({"message": "other", "reportingInstance": "c-2", "series": {"count": 1}}).texts
    assert texts == [
        'series.count: Invalid value: "": should be at least 2',
        "series.lastObservedTime: Required value",
        'message: Invalid value: "other": field is immutable',
        'reportingInstance: Invalid value: "c-2": field is immutable',
    ]


def test_it_is_selected_by_its_own_names_for_the_stored_fields() -> None:
    document = EVENT.create().document
    selectable = EVENT.resource.selectable_fields
    found = {name: get(document) for name, get in selectable.items()}
    assert found["regarding.kind"] == "Pod"
    assert found["reportingController"] == "example.com/c"
    assert found["reason"] == "Scheduled"
    assert "involvedObject.kind" not in found


def test_its_row_is_the_core_groups() -> None:
    cells = EVENT.cells()
    assert (cells["Type"], cells["Reason"], cells["Message"]) == ("Normal", "Scheduled", "it runs")
    assert cells["Object"] == "pod/p"
    assert "note" in changed(EVENT.valid, {})  # showing it has not converted it


_REFERENCE: Final = (
    '{{"Kind":"{}","Namespace":"default","Name":"{}","UID":"","APIVersion":"","ResourceVersion":"",'
    '"FieldPath":""}}'
)
# The path in the core group, the new value, and how the error shows it: as Go's structures have it.
FIXED: Final[dict[str, tuple[str, Any, str]]] = {
    "involvedObject": ("involvedObject.name", "q", _REFERENCE.format("Pod", "q")),
    "message": ("message", None, '""'),
    "source": ("source", {"host": "h"}, '{"Component":"","Host":"h"}'),
    "count": ("count", 4, "4"),
    "type": ("type", "Warning", '"Warning"'),
    "action": ("action", "Bound", '"Bound"'),
    "related": ("related", {"namespace": "default", "name": "r"}, _REFERENCE.format("", "r")),
    "reportingController": ("reportingComponent", "example.com/d", '"example.com/d"'),
    "reportingInstance": ("reportingInstance", "c-2", '"c-2"'),
}


@pytest.mark.parametrize(("path", "value", "shown"), FIXED.values(), ids=FIXED)
def test_all_but_the_series_stays(path: str, value: Any, shown: str, request: pytest.FixtureRequest) -> None:
    field = request.node.callspec.id
    assert EVENT.update({path: value}).texts == [f"{field}: Invalid value: {shown}: field is immutable"]


def test_a_changed_reason_is_reported_twice() -> None:
    """As in Kubernetes, whose list of fields has it twice."""
    assert (
        EVENT.update({"reason": "Bound"}).texts == ['reason: Invalid value: "Bound": field is immutable'] * 2
    )


def test_rules_of_an_update_come_after_those_of_any_event() -> None:
    texts = EVENT.update({"reportingInstance": None}).texts
    assert texts == [
        "reportingInstance: Required value",
        'reportingInstance: Invalid value: "": field is immutable',
    ]
