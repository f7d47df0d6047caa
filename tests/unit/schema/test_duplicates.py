"""Duplicate members of JSON objects are found, wherever they are and however they are escaped. Row E04."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.schema.duplicates import DUPLICATES_MAX, STRICT_PROBLEMS_MAX, duplicate_fields, strict_problems
from tests.unit.endpoints.handlers.calls import DEPLOYMENTS

CASES: Final[dict[str, tuple[str, list[str]]]] = {
    "none": ('{"a":1,"b":{"a":1}}', []),
    "no object": ("[1]", []),
    "with blanks between": ('{"a": 1, "b": {"c": "d", "c": "e"} }', ["b.c"]),
    "none, with blanks behind": ('{"a":1,"b":[{}]} \n', []),
    "none, with blanks between": ('{"a": 1, "b": [{}, "\\n"]}', []),
    "at the top": ('{"a":1,"b":2,"a":3}', ["a"]),
    "below": ('{"a":{"b":1,"b":2}}', ["a.b"]),
    "in a list": ('{"a":[{},{"b":1,"b":2}]}', ["a[1].b"]),
    "of the same value": ('{"a":1,"a":1}', ["a"]),
    "three times is told once": ('{"a":1,"a":2,"a":3}', ["a"]),
    "in order": ('{"b":{"x":1,"x":1},"a":1,"a":2}', ["b.x", "a"]),
    "in what is repeated": ('{"a":{"x":1,"x":2},"a":{"x":1}}', ["a.x", "a"]),
    "written otherwise": ('{"a":1,"\\u0061":2}', ["a"]),
    "beside escaped marks": ('{"a":"\\"","a":"\\""}', ["a"]),
    "beside backslashes": ('{"a":"\\\\","b":"\\\\\\"","a":""}', ["a"]),
    "marks that stand for themselves are none": ('{"a":"\\u0022","b":"\\\\"}', []),
    "backslashes by number": ('{"a":"\\u005c\\"","b":1}', []),
}


@pytest.mark.parametrize(("text", "paths"), CASES.values(), ids=CASES)
def test_duplicates_are_found(text: str, paths: list[str]) -> None:
    assert duplicate_fields(text.encode(), orjson.loads(text)) == paths


def test_the_number_of_duplicates_is_bounded() -> None:
    text = "{" + ",".join(f'"{n}":1,"{n}":1' for n in range(DUPLICATES_MAX + 10)) + "}"
    assert len(duplicate_fields(text.encode(), orjson.loads(text))) == DUPLICATES_MAX


_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('ab"\\')), inner),
    max_leaves=20,
)


@given(_JSON, st.booleans())
def test_documents_without_duplicates_have_none(document: Any, is_ascii: bool) -> None:
    text = json.dumps(document, ensure_ascii=is_ascii).encode()
    assert duplicate_fields(text, orjson.loads(text)) == []


@given(st.dictionaries(st.text(st.sampled_from('ab"\\')), _JSON, min_size=1))
def test_every_duplicate_is_found(document: dict[str, Any]) -> None:
    name = next(iter(document))
    text = json.dumps(document)[:-1] + f", {json.dumps(name)}: null}}"
    assert duplicate_fields(text.encode(), orjson.loads(text)) == [name]


# Source: sigs.k8s.io/json, decode.go: the order of the body.
STRICT: Final[dict[str, tuple[str, list[str]]]] = {
    "a duplicate before an unknown field": (
        '{"kind":"a","kind":"b","bogus":1}',
        ['duplicate field "kind"', 'unknown field "bogus"'],
    ),
    "an unknown field before a duplicate": (
        '{"bogus":1,"kind":"a","kind":"b"}',
        ['unknown field "bogus"', 'duplicate field "kind"'],
    ),
    "in what is repeated": (
        '{"spec":{"a":1},"spec":{"b":1}}',
        ['unknown field "spec.a"', 'duplicate field "spec"', 'unknown field "spec.b"'],
    ),
    "an unknown field is told once, and nothing in it": (
        '{"bogus":{"a":1,"a":2},"bogus":1}',
        ['unknown field "bogus"'],
    ),
    "in maps and in items of lists": (
        '{"metadata":{"labels":{"a":"1","a":"2"},"ownerReferences":[{"bogus":1,"name":"a","name":"b"}]}}',
        [
            'duplicate field "metadata.labels.a"',
            'unknown field "metadata.ownerReferences[0].bogus"',
            'duplicate field "metadata.ownerReferences[0].name"',
        ],
    ),
    "not in what has no schema": ('{"metadata":{"managedFields":[{"fieldsV1":{"a":1,"a":2}}]}}', []),
}


@pytest.mark.parametrize(("text", "problems"), STRICT.values(), ids=STRICT)
def test_e08_problems_are_listed_in_the_order_of_the_body(text: str, problems: list[str]) -> None:
    assert strict_problems(text.encode(), DEPLOYMENTS.schema()) == problems


def test_the_number_of_problems_is_bounded() -> None:
    text = "{" + ",".join(f'"{n}":1' for n in range(STRICT_PROBLEMS_MAX + 10)) + "}"
    assert len(strict_problems(text.encode(), DEPLOYMENTS.schema())) == STRICT_PROBLEMS_MAX
