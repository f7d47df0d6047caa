"""Parses booleans as Go's strconv.ParseBool does."""

from __future__ import annotations

from typing import Final

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def parse_bool(text: str | None) -> bool | None:
    """Returns the boolean in a text; None if it is not one."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None
