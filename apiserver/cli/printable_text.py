"""Texts of others as a terminal and a log can show them: whatever would steer these is escaped.

Escaped are control characters (a terminal obeys those of both ranges, C0 and C1), line breaks, marks that
turn the direction of writing, what has no width, and lone surrogates, which UTF-8 cannot encode: all that
`str.isprintable` is false of.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """Returns a text on one line, with escapes as Python's `repr` has them."""
    return text if text.isprintable() else "".join(map(_escape, text))


def printable_lines(text: str) -> str:
    """Returns a text with the line breaks that it has, and escapes in its lines."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """Returns a text of JSON that means the same, with JSON's escapes; it may be indented."""
    return "\n".join(
        line if line.isprintable() else "".join(map(_json_escape, line)) for line in text.split("\n")
    )


def _escape(character: str) -> str:
    return (
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
    )


def _json_escape(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
