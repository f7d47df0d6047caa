"""Splits the text of an expression into tokens.

The tokens are those of cel-go's lexer. Invalid text is skipped and returned separately, so that all errors of
a text are found.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

# Kinds of tokens; those of operators, brackets and keywords are their own text.
IDENTIFIER: Final = "IDENTIFIER"
QUOTED: Final = "ESC_IDENTIFIER"
FLOAT: Final = "NUM_FLOAT"
INT: Final = "NUM_INT"
UINT: Final = "NUM_UINT"
STRING: Final = "STRING"
BYTES: Final = "BYTES"
END: Final = "<EOF>"

# The order in which messages list what they expect.
ORDER: Final = (
    *(
        "==",
        "!=",
        "in",
        "<",
        "<=",
        ">=",
        ">",
        "&&",
        "||",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        ".",
        ",",
        "-",
        "!",
        "?",
    ),
    *(":", "+", "*", "/", "%", "true", "false", "null"),
    *(FLOAT, INT, UINT, STRING, BYTES, IDENTIFIER, QUOTED),
)
_KEYWORDS: Final = {token: token for token in ("in", "true", "false", "null")}

_ESCAPE: Final = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_HALF_ESCAPE: Final = r"(?:\\(?:[0-3][0-7]?|[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})?)?"


# Groups are repeated greedily, not possessively: `(?:...)*+` may fail to match up to Python 3.11.4.
# Each character is matched in one way alone, so that there is nothing to try again.
def _inside(quote: str) -> str:
    return rf"[^\\{quote}\n\r]*+(?:{_ESCAPE}[^\\{quote}\n\r]*+)*"


def _inside_three(quote: str) -> str:
    return rf"[^\\{quote}]*+(?:(?:{_ESCAPE}|{quote}(?!{quote}{quote}))[^\\{quote}]*+)*"


_QUOTED_TEXT: Final = "|".join(
    (
        *(f"{quote * 3}{_inside_three(quote)}{quote * 3}" for quote in "'\""),
        *(f"{quote}{_inside(quote)}{quote}" for quote in "'\""),
        *(f"[rR]{quote * 3}(?s:.*?){quote * 3}" for quote in "'\""),
        *(rf"[rR]{quote}[^{quote}\n\r]*+{quote}" for quote in "'\""),
    )
)
_EXPONENT: Final = r"[eE][+-]?[0-9]++"
# Tried in this order. An unterminated token is invalid up to and with the character that shows it.
_TOKEN: Final = re.compile(
    r"(?:[ \t\r\n\f]++|//[^\n]*+)*(?:"
    rf"({_QUOTED_TEXT})"
    rf"|([bB](?:{_QUOTED_TEXT}))"
    r"|([A-Za-z_][A-Za-z0-9_]*+)"
    rf"|([0-9]++\.[0-9]++(?:{_EXPONENT})?|[0-9]++{_EXPONENT}|\.[0-9]++(?:{_EXPONENT})?)"
    r"|((?:0x[0-9a-fA-F]++|[0-9]++)[uU])"
    r"|(0x[0-9a-fA-F]++|[0-9]++)"
    r"|(==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])"
    r"|(`[A-Za-z0-9_.\-/ ]++`)"
    rf"|(?s:((?:'{_inside(chr(39))}|\"{_inside(chr(34))}){_HALF_ESCAPE}.?|`[A-Za-z0-9_.\-/ ]*+.?|[=&|].?|.))"
    r"|\Z)"
)
_KINDS: Final = (None, STRING, BYTES, IDENTIFIER, FLOAT, UINT, INT, None, QUOTED)
_NAME, _SYMBOL, _INVALID = 3, 7, 9


class Tokens(NamedTuple):
    """The tokens of a text: a list for each property. END is there twice at the end, for lookahead."""

    kinds: list[str]
    texts: list[str]
    offsets: list[int]
    invalid: list[tuple[int, str]]  # offset and text of what is no token


def tokens(text: str) -> Tokens:
    kinds: list[str] = []
    texts: list[str] = []
    offsets: list[int] = []
    invalid: list[tuple[int, str]] = []
    for match in _TOKEN.finditer(text):
        group = match.lastindex
        if group is None:
            break
        token = match[group]
        if group == _INVALID:
            invalid.append((match.end() - len(token), token))
            continue
        if group == _SYMBOL:
            kinds.append(token)
        elif group == _NAME:
            kinds.append(_KEYWORDS.get(token, IDENTIFIER))
        else:
            kinds.append(_KINDS[group])  # type: ignore[arg-type]
        texts.append(token)
        offsets.append(match.end() - len(token))
    kinds += (END, END)
    texts += (END, END)
    offsets += (len(text), len(text))
    return Tokens(kinds, texts, offsets, invalid)


_WHITE: Final = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


def displayed(text: str) -> str:
    return f"'{text.translate(_WHITE)}'"


# ---- the values of literals


class BadLiteral(Exception):
    """A string or bytes literal without a value; `str()` returns the reason."""


def string_value(literal: str) -> str:
    """Returns the text of a literal. Raises BadLiteral."""
    content, is_raw = _content(literal)
    if is_raw or "\\" not in content:
        return content
    return _ESCAPED.sub(_character, content)


def bytes_value(literal: str) -> bytes:
    """Returns the bytes of a literal with its `b`. Escapes are octets, all other text is UTF-8. Raises
    BadLiteral.
    """
    content, is_raw = _content(literal[1:])
    if is_raw or "\\" not in content:
        return _utf8(content)
    # Octets that are escaped are represented by surrogates until the text is encoded.
    return _ESCAPED.sub(_octet, _checked(content)).encode("utf-8", "surrogateescape")


_ESCAPED: Final = re.compile(_ESCAPE)
_PLAIN: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _content(literal: str) -> tuple[str, bool]:
    if "\r" in literal:
        literal = literal.replace("\r\n", "\n").replace("\r", "\n")
    is_raw = literal[0] in "rR"
    start = 1 if is_raw else 0
    quotes = 3 if len(literal) >= start + 6 and literal[start : start + 3] in ("'''", '"""') else 1
    return literal[start + quotes : -quotes], is_raw


def _character(match: re.Match[str]) -> str:
    escape = match[0]
    kind = escape[1]
    if kind in "xXuU":
        code = int(escape[2:], 16)
    elif kind.isdigit():
        code = int(escape[1:], 8)
    else:
        return _PLAIN.get(kind, kind)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise BadLiteral("invalid unicode code point")
    return chr(code)


def _octet(match: re.Match[str]) -> str:
    escape = match[0]
    kind = escape[1]
    if kind in "xX":
        code = int(escape[2:], 16)
    elif kind.isdigit():
        code = int(escape[1:], 8)
    elif kind in "uU":
        raise BadLiteral("unable to unescape string")
    else:
        return _PLAIN.get(kind, kind)
    return chr(code if code < 0x80 else 0xDC00 + code)


def _checked(content: str) -> str:
    _utf8(content)
    return content


def _utf8(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise BadLiteral("invalid unicode code point") from None
