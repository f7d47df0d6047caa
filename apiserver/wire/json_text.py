"""Parses JSON of clients, with a limit on the number of values that is checked before parsing.

Three megabytes of `{},` are a million values: the parser holds the interpreter while it makes them, as does
the garbage collector that visits them, and further work on them takes seconds. There are as many commas and
opening brackets as values, and a megabyte is counted in a millisecond.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from apiserver.golang.json_errors import syntax_error

# Objects that can be stored have fewer: of those that are 1.5 MiB long, CustomResourceDefinitions have some
# 100,000, and ConfigMaps with the shortest entries 180,000, with their managed fields. Parsing so many takes
# 40 ms at most.
VALUES_MAX: Final = 250_000
_CHUNK_BYTES: Final = 64 * 1024


class TooManyValues(ValueError):
    """A text with more values than allowed."""

    def __init__(self) -> None:
        super().__init__(f"document has more than {VALUES_MAX} values")


class InvalidJson(ValueError):
    """A text that is not JSON; the message is that of Go's parser."""


def load(text: bytes) -> Any:
    """Returns the document in a JSON text. Raises TooManyValues, InvalidJson."""
    if len(text) > VALUES_MAX and _marks(text) > VALUES_MAX and values_in(text) > VALUES_MAX:
        raise TooManyValues
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidJson(syntax_error(error, text)) from None


def values_in(text: bytes) -> int:
    """Returns the number of values in JSON; an empty object or list in another counts twice."""
    # Without escapes, each quotation mark begins or ends a string.
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = quotes = 0
    for start in range(0, len(text), _CHUNK_BYTES):
        pieces = text[start : start + _CHUNK_BYTES].split(b'"')
        marks += _marks(b"".join(pieces[quotes % 2 :: 2]))
        quotes += len(pieces) - 1
    return marks


def _marks(text: bytes) -> int:
    """Returns the number of commas and opening brackets, also of those in strings."""
    return text.count(b",") + text.count(b"{") + text.count(b"[")
