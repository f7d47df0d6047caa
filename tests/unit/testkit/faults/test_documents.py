"""Faults as JSON documents: there and back, and what is wrong with those that are none."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.testkit.faults import Answer, CutConnection, Delay, EndWatch, InvalidFault, Match
from apiserver.testkit.faults.documents import EFFECTS, key_of, parse, request_document

DOCUMENTS: Final[dict[str, tuple[dict[str, Any], Any, Match, int | None]]] = {
    "the least": ({"effect": {"type": "Delay", "seconds": 1}}, Delay(1), Match(), None),
    "an answer": (
        {
            "match": {"verb": "update", "resource": "pods", "userAgent": "kopf/*", "group": "", "every": 2},
            "effect": {"type": "Answer", "code": 503, "retryAfterSeconds": 1, "afterWrite": True},
            "times": 3,
        },
        Answer(503, retry_after_s=1, after_write=True),
        Match(verb="update", resource="pods", user_agent="kopf/*", group="", every=2),
        3,
    ),
    "a cut in an event": (
        {"match": {}, "effect": {"type": "CutConnection", "moment": "in-event", "afterEvents": 2}},
        CutConnection("in-event", 2),
        Match(),
        None,
    ),
}


@pytest.mark.parametrize(("document", "effect", "match", "times"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_what_documents_say(document: Any, effect: Any, match: Match, times: int | None) -> None:
    assert parse(document) == (effect, match, times)
    assert request_document(effect, match, times) == {"match": {}, **document}


REFUSED: Final[dict[str, tuple[Any, str]]] = {
    "no object": ([], "fault: must be an object"),
    "no effect": ({}, "effect.type: must be one of Answer, Delay, "),
    "an effect that is no object": ({"effect": "Delay"}, "effect: must be an object"),
    "an effect that there is not": ({"effect": {"type": "Explode"}}, "effect.type: must be one of"),
    "an effect that is no text": ({"effect": {"type": ["Delay"]}}, "effect.type: must be one of"),
    "a field that there is not": (
        {"effects": {}},
        "effects: unknown field; the fields of a fault are match, ",
    ),
    "a field that the effect has not": (
        {"effect": {"type": "Delay", "seconds": 1, "code": 500}},
        "effect.code: unknown field; the fields of effect are seconds",
    ),
    "a field of an effect that has none": (
        {"effect": {"type": "ExpireToken", "user": "a"}},
        "effect.user: unknown field; effect has no fields",
    ),
    "a field that the match has not": (
        {"effect": {"type": "NotReady"}, "match": {"user_agent": "a"}},
        "match.user_agent: unknown field",
    ),
    "what is required": ({"effect": {"type": "Answer"}}, "effect.code: is required"),
    "no integer": ({"effect": {"type": "Answer", "code": "500"}}, "effect.code: must be an integer"),
    "a truth for an integer": (
        {"effect": {"type": "Answer", "code": True}},
        "effect.code: must be an integer",
    ),
    "no number": ({"effect": {"type": "Delay", "seconds": "1s"}}, "effect.seconds: must be a number"),
    "no truth": ({"effect": {"type": "EndWatch", "silently": 1}}, "effect.silently: must be true or false"),
    "no text": ({"effect": {"type": "NotReady"}, "match": {"verb": 1}}, "match.verb: must be a text"),
    "null": ({"effect": {"type": "NotReady", "seconds": None}}, "effect.seconds: must be a number"),
    "a code that is no failure": (
        {"effect": {"type": "Answer", "code": 200}},
        "effect.code: 200 is not between 400 and 599",
    ),
    "a time that never comes": (
        {"effect": {"type": "Delay", "seconds": 1e9}},
        "effect.seconds: 1000000000.0 is not between 0 and 86400",
    ),
    "no time": ({"effect": {"type": "HoldEvents", "seconds": 0}}, "effect.seconds: 0 is not between 0 and"),
    "the name of a field in documents": (
        {"effect": {"type": "Answer", "code": 429, "retryAfterSeconds": -1}},
        "effect.retryAfterSeconds: -1 is not between",
    ),
    "events of a cut that is not in one": (
        {"effect": {"type": "CutConnection", "afterEvents": 1}},
        "effect.afterEvents: is only valid for the moment in-event",
    ),
    "a moment that there is not": (
        {"effect": {"type": "CutConnection", "moment": "now"}},
        "effect.moment: 'now' is not one of before-write, after-write, in-event",
    ),
    "times that are no integer": (
        {"effect": {"type": "NotReady"}, "times": "1"},
        "times: must be an integer",
    ),
}


@pytest.mark.parametrize(("document", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_with_a_document(document: Any, message: str) -> None:
    with pytest.raises(InvalidFault, match=re.escape(message)):
        parse(document)


def test_the_events_of_a_watch_that_are_to_come_are_counted() -> None:
    with pytest.raises(InvalidFault, match=r"effect.after_events: -1 is not between 0 and"):
        EndWatch(after_events=-1)


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)
KEYS: Final = sorted({key_of(field.name) for kind in (Match, *EFFECTS.values()) for field in fields(kind)})
SOME: Final = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4)


@given(SOME, st.sampled_from(sorted(EFFECTS)), SOME, JSON)
def test_whatever_comes_is_a_fault_or_refused(match: Any, kind: str, effect: Any, times: Any) -> None:
    document = {"match": match, "effect": {**effect, "type": kind}, "times": times}
    try:
        asked = parse(document)
    except InvalidFault:
        return
    assert parse(request_document(*asked)) == asked
