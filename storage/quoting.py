"""Text in messages, as Go prints it: clients and their tests know the messages to the letter."""

from __future__ import annotations

from typing import Final


def go_quote(text: str) -> str:
    """Go's %q: printable characters stay, the rest is escaped."""
    return '"' + "".join(_escape(character) for character in text) + '"'


_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
