"""Parses media types as Go's package mime does.

Source: https://pkg.go.dev/mime#ParseMediaType.
"""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = r"[!#$%&'*+\-.0-9A-Z^_`a-z{|}~]+"
# A backslash escapes only what cannot be in a word; before anything else it stands for itself.
_ESCAPABLE: Final = r'[()<>@,;:\\"/\[\]?=]'
_ESCAPED: Final = rf"\\({_ESCAPABLE})"
_QUOTED: Final = rf'"[^"\\\r\n]*+(?:\\(?:{_ESCAPABLE}|(?!{_ESCAPABLE}))[^"\\\r\n]*+)*"'
# Possessive, so that what follows many spaces is not looked for once for each of them.
_SPACE: Final = r"[ \t\n\v\f\r\x85\xa0]*+"

_is_media_type = re.compile(rf"{_WORD}(?:/{_WORD})?").fullmatch
_match_parameter = re.compile(
    rf"{_SPACE};{_SPACE}(?P<name>{_WORD}){_SPACE}={_SPACE}(?P<value>{_WORD}|{_QUOTED})"
).match
_is_end = re.compile(rf"{_SPACE};?{_SPACE}").fullmatch
_unescape = re.compile(_ESCAPED).sub


def parse_media_type(text: str) -> str:
    """Returns the media type without its parameters, in lower case.

    Raises ValueError if it is invalid, if a parameter is malformed, or if one has two values.
    """
    media_type = text.partition(";")[0]
    rest, values = text[len(media_type) :], dict[str, str]()
    media_type = media_type.strip().lower()
    if not _is_media_type(media_type):
        raise ValueError(f"{text!r} is not a media type")
    while not _is_end(rest):
        parameter = _match_parameter(rest)
        if parameter is None:
            raise ValueError(f"{text!r} has a malformed parameter")
        name, value = parameter["name"].lower(), parameter["value"]
        if value.startswith('"'):
            value = _unescape(r"\1", value[1:-1])
        if values.setdefault(name, value) != value:
            raise ValueError(f"{text!r} has two values of the parameter {name}")
        rest = rest[parameter.end() :]
    return media_type
