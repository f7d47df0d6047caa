"""Finds parts of encoded JSON without decoding the rest. Pure.

Decoding an object of 3 MB makes up to a million Python objects, which takes a hundred milliseconds; reading
it through takes three. So the needed parts of large objects (labels, a few fields) are cut out first, and
only these are decoded. The parser itself finds where a value ends: it reads a whole value before it makes any
objects, and reports where extra text follows.

The JSON is compact, as stored: no spaces, and no escapes in keys.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

# How many places are looked at where a key stands. If there are more, they are in maps that look like the
# object itself, and then decoding everything takes no longer.
PLACES_MAX: Final = 4
# The parser's message about extra text after a value. With a parser that has another message everything is
# decoded.
_GOES_ON: Final = "unexpected content after document"


def value_end(text: bytes) -> int | None:
    """Returns the length of the value that a text begins with, if more text follows; None otherwise."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith(_GOES_ON):
            characters = error.doc[: error.pos]
            return error.pos if characters.isascii() else len(characters.encode())
    return None


def is_value(text: bytes) -> bool:
    """Whether a text is one value; if False, only decoding can tell."""
    try:
        orjson.loads(text + b"!")
    except orjson.JSONDecodeError as error:
        return error.msg.startswith(_GOES_ON) and error.pos == len(error.doc) - 1
    return False


def find(text: bytes, key: str) -> Any:
    """Returns the decoded value of a key in a JSON object; None if there is no such key."""
    opening = orjson.dumps(key) + b":"
    at = -1
    for _ in range(PLACES_MAX):
        at = text.find(opening, at + 1)
        if at < 0:
            return None
        # It is a key of the object itself if nothing else is open before it.
        if is_value(text[:at] + b'"":0}'):
            value = text[at + len(opening) :]
            end = value_end(value)
            if end is None:
                break
            return orjson.loads(value[:end])
    return orjson.loads(text).get(key)
