"""Translates errors of the JSON parser to the messages of Go's package encoding/json.

Both stop at the same character; Go also names what it expected. This is derived from the first error alone,
without parsing again, except after a leading zero, whose allowed successors depend on its context.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

from apiserver.golang.quoting import go_quote

END: Final = "unexpected end of JSON input"
# What Go makes U+FFFD of, and this server refuses: see docs/reference/differences.md.
NOT_UTF8: Final = "invalid UTF-8 in JSON input"
# What the parser says, and what Go looks for where the parser has stopped.
_LOOKING_FOR: Final = {
    "unexpected content after document": "after top-level value",
    "unexpected character, expected a JSON value": "looking for beginning of value",
    "UTF-8 byte order mark (BOM) is not supported": "looking for beginning of value",
    "unexpected character, expected a string key": "looking for beginning of object key string",
    "unexpected character, expected ',' or ']'": "after array element",
    "unexpected character, expected ',' or '}'": "after object key:value pair",
    "unexpected character, expected ':' after key": "after object key",
    "unexpected control character in string": "in string literal",
    "no digit after decimal point": "after decimal point in numeric literal",
    "no digit after exponent sign": "in exponent of numeric literal",
    "no digit after sign": "in numeric literal",
}
_ESCAPE: Final = re.compile(r"\\u[0-9a-fA-F]{0,4}")
# A number may have as many digits as a body has bytes.
NUMBER_SHOWN_MAX: Final = 64
_QUOTES: Final = {"'": r"\'", '"': '"'}
_SPACE: Final = " \t\r\n"


def syntax_error(error: orjson.JSONDecodeError, text: bytes) -> str:
    """Returns the message of an error. text: the parsed text."""
    characters, at = text.decode("utf-8", "replace"), error.pos
    problem, rest = error.msg.partition(": line")[0], characters[at:]
    if "UTF-8: " in problem or "surrogate" in problem:
        return NOT_UTF8
    if "depth" in problem:
        return "exceeded max depth"
    if not rest.strip(_SPACE):
        return END
    if problem == "number is infinity when parsed as double":
        number = rest[: len(rest) - len(rest.lstrip("-+.0123456789eE"))][:NUMBER_SHOWN_MAX]
        return f"json: cannot unmarshal number {number} into Go value of type float64"
    if problem.startswith("invalid literal, expected "):
        return _in_literal(rest, problem.split("'")[1])
    if problem.startswith(("invalid escape", "invalid escaped")):
        return _in_escape(rest)
    if problem == "trailing comma is not allowed":
        closing = rest[1:].lstrip(_SPACE)
        what = "object key string" if closing.startswith("}") else "value"
        return _unexpected(closing, f"looking for beginning of {what}")
    if problem == "number with leading zero is not allowed":
        return _after_zero(characters[: at + 1], rest[1:])
    if problem == "no digit after sign" and not characters[:at].endswith("-"):
        return _unexpected(rest, "looking for beginning of value")
    return _unexpected(rest, _LOOKING_FOR.get(problem, "looking for beginning of value"))


def _unexpected(rest: str, where: str) -> str:
    if not rest:
        return END
    shown = _QUOTES.get(rest[0]) or go_quote(rest[0])[1:-1]
    return f"invalid character '{shown}' {where}"


def _in_literal(rest: str, literal: str) -> str:
    index = next((i for i, expected in enumerate(literal) if rest[i : i + 1] != expected), 0)
    return _unexpected(rest[index:], f"in literal {literal} (expecting '{literal[index]}')")


def _in_escape(rest: str) -> str:
    """Returns the message about an escape. rest: begins with the escape, or with one that needs another half
    after it.
    """
    found = _ESCAPE.match(rest)
    if found is None:
        return _unexpected(rest[1:], "in string escape code")
    if len(found[0]) == len(r"\u0000"):
        return NOT_UTF8
    return _unexpected(rest[found.end() :], r"in \u hexadecimal character escape")


def _after_zero(until: str, rest: str) -> str:
    """Returns the message about text after a leading zero. until: all of the text up to the zero."""
    try:
        orjson.loads(until + "!")
    except orjson.JSONDecodeError as error:
        return _unexpected(rest, _LOOKING_FOR.get(error.msg.partition(": line")[0], "after top-level value"))
    raise AssertionError("no JSON ends with an exclamation mark")
