"""Media types as Go's package mime reads them. Row D19."""

from __future__ import annotations

import time
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.golang.media_types import parse_media_type

# https://pkg.go.dev/mime#ParseMediaType
READ: Final = {
    "a type": ("application/json", "application/json"),
    "a parameter": ("application/json; charset=utf-8", "application/json"),
    "types have no case": (" Application/JSON ", "application/json"),
    "no space": ("text/html;a=b;c=d", "text/html"),
    "much space": ("text/html \t; a = b ; c= d", "text/html"),
    "a quoted value": ('text/html;a="b;c=d"', "text/html"),
    "an escaped quotation mark": (r'text/html;a="b\"c"', "text/html"),
    "a backslash that escapes nothing": (r'text/html;a="C:\dir"', "text/html"),
    "an empty quoted value": ('text/html;a=""', "text/html"),
    "a semicolon at the end": ("text/html;", "text/html"),
    "a semicolon after a parameter": ("text/html;a=b; ", "text/html"),
    "the same parameter again": ('text/html;a=b;A="b"', "text/html"),
    "a continued parameter": ("text/html;a*0=b;a*1=c", "text/html"),
    "half a type": ("form-data;a=b", "form-data"),
}


@pytest.mark.parametrize(("text", "media_type"), READ.values(), ids=READ)
def test_a_media_type_is_read(text: str, media_type: str) -> None:
    assert parse_media_type(text) == media_type


REFUSED: Final = {
    "nothing": "",
    "a parameter without a type": ";a=b",
    "a type without a subtype": "text/",
    "three parts": "text/html/x",
    "two types": "text/html, text/plain",
    "a type with a space": "text/ html",
    "a name alone": "text/html;a",
    "a name without a value": "text/html;a=",
    "a value without a name": "text/html;=b",
    "two semicolons": "text/html;;a=b",
    "a semicolon too many": "text/html;;",
    "a quoted value without an end": 'text/html;a="b',
    "an escaped end": r'text/html;a="b\"',
    "text after a quoted value": 'text/html;a="b"c',
    "two values": "text/html;a=b;a=c",
    "a value that is none": "text/html;a=b/c",
    "a long way to the end": 'text/html;a="' + r"\(" * 10_000,
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_malformed_media_type(text: str) -> None:
    with pytest.raises(ValueError, match=r"media type|parameter"):
        parse_media_type(text)


def test_many_spaces_are_read_once() -> None:
    start = time.process_time()
    with pytest.raises(ValueError, match="parameter"):
        parse_media_type(f"application/json; a=b{' ' * 100_000}x")
    assert time.process_time() - start < 1


@given(st.text(alphabet='a/;="\\ \t,(', max_size=30))
def test_the_media_type_stands_at_the_beginning(text: str) -> None:
    try:
        media_type = parse_media_type(text)
    except ValueError:
        return
    assert text.lower().strip().startswith(media_type)
