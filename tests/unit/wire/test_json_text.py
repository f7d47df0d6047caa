"""JSON of clients is parsed up to a number of values, which are counted before."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.endpoints.connection import BODY_BYTES_MAX
from apiserver.wire import json_text
from apiserver.wire.json_text import VALUES_MAX, TooManyValues


def full_of(item: bytes, count: int) -> bytes:
    return b"[" + b",".join([item] * count) + b"]"


COUNTED: Final = {
    "null": (b"null", 0),
    "an empty object": (b"{}", 1),
    "members": (b'{"a":1,"b":[2,3]}', 4),
    "strings hide marks": (b'["a,b,[{",1]', 2),
    "escaped quotation marks do not end strings": (rb'["\",,,\\\",,,",1]', 2),
    "an escaped backslash before the end of a string": (rb'["\\",1,"\\\\",1]', 4),
    "other escapes": (rb'["\u0022,,\n,",1]', 2),
}


@pytest.mark.parametrize(("text", "count"), COUNTED.values(), ids=COUNTED)
def test_how_values_are_counted(text: bytes, count: int) -> None:
    assert json_text.values_in(text) == count


def _values(document: Any) -> int:
    """As the module counts: each value in another, and each object or list."""
    if isinstance(document, dict):
        document = [*document.values()]
    if not isinstance(document, list):
        return 0
    return 1 + max(len(document) - 1, 0) + sum(map(_values, document))


_NAMES: Final = st.text(alphabet='a"\\,', max_size=3)
_JSON: Final = st.recursive(
    st.none() | st.integers(0, 99) | st.text(alphabet='a,[{"\\\n\u00e9', max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=20,
)


@given(_JSON)
def test_the_count_is_that_of_the_document(document: Any) -> None:
    assert json_text.values_in(orjson.dumps(document)) == _values(document)
    assert json_text.values_in(json.dumps(document, indent=1).encode()) == _values(document)


@given(_JSON, st.integers(1, 9))
def test_strings_may_span_the_pieces_in_which_values_are_counted(document: Any, length: int) -> None:
    long = ["," * (64 * 1024 - length), document, '"' * 70_000, "\\" * 70_001]
    assert json_text.values_in(orjson.dumps(long)) == _values(long)


REFUSED: Final = {
    "objects": full_of(b"{}", VALUES_MAX),
    "lists": full_of(b"[]", VALUES_MAX),
    "numbers": full_of(b"1", VALUES_MAX + 1),
    "strings": full_of(b'"a"', VALUES_MAX + 1),
    "escaped strings": full_of(rb'"\""', VALUES_MAX + 1),
    "members": b"{" + b",".join(b'"%x":1' % n for n in range(VALUES_MAX + 1)) + b"}",
    "with spaces": full_of(b" { } ", VALUES_MAX),
    "3 MB of empty objects": full_of(b"{}", BODY_BYTES_MAX // 3 - 1),
    "no JSON": b"," * (VALUES_MAX + 1),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_texts_of_too_many_values_are_refused(text: bytes) -> None:
    with pytest.raises(TooManyValues, match="more than 250000 values"):
        json_text.load(text)


PARSED: Final = {
    "as many values as are parsed": full_of(b"1", VALUES_MAX - 1),
    "44,000 members, and who owns them": orjson.dumps(
        {"data": {f"k{n}": "v" for n in range(44_000)}, "f": {f"f:k{n}": {} for n in range(44_000)}}
    ),
    "a table of commas in a string": orjson.dumps({"a": "1,2,3\n" * 400_000}),
    "brackets in an escaped string": orjson.dumps({"a": '{"a":[1]}' * 200_000}),
    "spaces": b" " * 3_000_000 + b"1",
}


@pytest.mark.parametrize("text", PARSED.values(), ids=PARSED)
def test_texts_that_are_parsed(text: bytes) -> None:
    assert json_text.load(text) == json.loads(text)
