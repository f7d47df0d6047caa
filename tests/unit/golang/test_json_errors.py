"""What is wrong with JSON is said in Go's words, at the character where Go stops."""

from __future__ import annotations

from typing import Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.golang.json_errors import END, NOT_UTF8, NUMBER_SHOWN_MAX, syntax_error

MESSAGES: Final = {
    "nothing": ("", END),
    "blanks": (" \n", END),
    "half an object": ('{"a":', END),
    "half a string": ('"a', END),
    "half an escape": ('"\\', END),
    "half a number": ("1e+", END),
    "half a literal": ("tru", END),
    "a comma at the end": ('{"a":1,', END),
    "no value": ("é", "invalid character 'é' looking for beginning of value"),
    "a byte order mark": ("\ufeff{}", r"invalid character '\ufeff' looking for beginning of value"),
    "a control": ("\0", r"invalid character '\x00' looking for beginning of value"),
    "an apostrophe": ("'a'", r"invalid character '\'' looking for beginning of value"),
    "a quotation mark": ('[1"', "invalid character '\"' after array element"),
    "a plus sign": ("[+1]", "invalid character '+' looking for beginning of value"),
    "a trailing comma in a list": ("[1, ]", "invalid character ']' looking for beginning of value"),
    "a trailing comma in an object": (
        '{"a":1,\n}',
        "invalid character '}' looking for beginning of object key string",
    ),
    "no key": ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
    "no colon": ('{"a" 1}', "invalid character '1' after object key"),
    "no comma between members": ('{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
    "no comma between elements": ("[1 2]", "invalid character '2' after array element"),
    "two values": ("{} x", "invalid character 'x' after top-level value"),
    "a line break in a string": ('"a\nb"', r"invalid character '\n' in string literal"),
    "an unknown escape": (r'"\a"', "invalid character 'a' in string escape code"),
    "an escape that is too short": (r'"\u12"', "invalid character '\"' in \\u hexadecimal character escape"),
    "an escape of no digits": (r'"\uwxyz"', r"invalid character 'w' in \u hexadecimal character escape"),
    "no digits after a sign": ("[-]", "invalid character ']' in numeric literal"),
    "two signs": ("-+1", "invalid character '+' in numeric literal"),
    "no digits after a point": ("1.a", "invalid character 'a' after decimal point in numeric literal"),
    "no digits in an exponent": ("1e,", "invalid character ',' in exponent of numeric literal"),
    "a leading zero in a list": ("[01]", "invalid character '1' after array element"),
    "a leading zero in an object": ('{"a":01}', "invalid character '1' after object key:value pair"),
    "a leading zero": ("-007", "invalid character '0' after top-level value"),
    "true": ("trve", "invalid character 'v' in literal true (expecting 'u')"),
    "false": ("[fals]", "invalid character ']' in literal false (expecting 'e')"),
    "null": ("nul,", "invalid character ',' in literal null (expecting 'l')"),
    "NaN": ("NaN", "invalid character 'N' looking for beginning of value"),
    "half a surrogate pair": (r'"\ud800"', NOT_UTF8),
    "half a surrogate pair before half an escape": (r'"\ud800\u12"', NOT_UTF8),
    "too deep": ("[" * 100_000, "exceeded max depth"),
    "too large": ("1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"),
}


def message(text: bytes) -> str:
    with pytest.raises(orjson.JSONDecodeError) as raised:
        orjson.loads(text)
    return syntax_error(raised.value, text)


@pytest.mark.parametrize(("text", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_the_message_of_an_error(text: str, expected: str) -> None:
    assert message(text.encode()) == expected


def test_bytes_that_are_no_text() -> None:
    assert message(b'{"a":"\xff"}') == NOT_UTF8


def test_a_number_is_shown_up_to_a_length() -> None:
    assert message(b"9" * 10_000).count("9") == NUMBER_SHOWN_MAX


_JSON: Final = st.text(alphabet='{}[]:,"\\utrefalsn0123456789.-+eE x\n\x00é', max_size=30)


@given(_JSON | st.tuples(st.sampled_from(['{"a":[1,', '[{"b":', '"']), _JSON).map("".join))
def test_every_error_has_a_message_of_go(text: str) -> None:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        told = syntax_error(error, text.encode())
        assert told.startswith(("invalid ", "json: cannot unmarshal number ", END, "exceeded "))
        assert "trailing" not in told
        assert "expected a" not in told
