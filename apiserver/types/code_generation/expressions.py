"""Python expressions, and their text in the layout of `ruff format` with its default settings.

An expression is on one line if it fits. Otherwise each of its elements has a line, with a comma after the
last one: formatters keep such a comma, and the line breaks with it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from unicodedata import combining, east_asian_width

LINE_MAX: Final = 88
INDENT: Final = "    "


class Expression(ABC):
    """An expression.

    prefix, suffix: in methods, the text before it on its first line, and after it on its last line.
    """

    @abstractmethod
    def flat(self) -> str:
        """Returns the expression on one line."""

    def exploded(self, indent: str, prefix: str, suffix: str) -> list[str]:
        """Returns the lines of the expression if it does not fit one line."""
        return [f"{indent}{prefix}{self.flat()}{suffix}"]

    def lines(self, indent: str = "", prefix: str = "", suffix: str = "") -> list[str]:
        text = f"{indent}{prefix}{self.flat()}{suffix}"
        return [text] if width(text) <= LINE_MAX else self.exploded(indent, prefix, suffix)


@dataclass(frozen=True)
class Text(Expression):
    """A name or a number."""

    text: str

    def flat(self) -> str:
        return self.text


@dataclass(frozen=True)
class String(Expression):
    """A string literal, which is several adjacent ones if it is too long for a line."""

    value: str

    def flat(self) -> str:
        return quoted(self.value)

    def exploded(self, indent: str, prefix: str, suffix: str) -> list[str]:
        pieces = self._pieces(LINE_MAX - width(f"{indent}{prefix}{suffix}"))
        pieces[0] = f"{prefix}{pieces[0]}"
        pieces[-1] += suffix
        return [f"{indent}{piece}" for piece in pieces]

    def _pieces(self, room: int) -> list[str]:
        """Returns literals of whole words, as few as have room. Lines of the text end a literal."""
        pieces = [""]
        for line in self.value.splitlines(keepends=True):
            for word in _words(line):
                if pieces[-1] and (pieces[-1].endswith("\n") or width(quoted(pieces[-1] + word)) > room):
                    pieces.append("")
                pieces[-1] += word
        return [quoted(piece) for piece in pieces]


@dataclass(frozen=True)
class Bracketed(Expression):
    """Elements in brackets: a call, a subscript, a list, a dict or a tuple.

    opening: with what is before it, as `Annotated[`.
    """

    opening: str
    elements: tuple[Element, ...]
    closing: str

    def flat(self) -> str:
        # A tuple of one element.
        comma = "," if self.opening == "(" and len(self.elements) == 1 else ""
        return f"{self.opening}{', '.join(each.flat() for each in self.elements)}{comma}{self.closing}"

    def exploded(self, indent: str, prefix: str, suffix: str) -> list[str]:
        if not self.elements:
            return super().exploded(indent, prefix, suffix)
        # In a subscript of one type, a comma would make a tuple.
        comma = "" if self.closing == "]" and self.opening != "[" and len(self.elements) == 1 else ","
        inner = [line for each in self.elements for line in each.lines(indent + INDENT, comma)]
        return [f"{indent}{prefix}{self.opening}", *inner, f"{indent}{self.closing}{suffix}"]


@dataclass(frozen=True)
class Element:
    """An element in brackets. name: with what is after it, as `message=`, or `"key": `; may be empty."""

    value: Expression
    name: str = ""

    def flat(self) -> str:
        return f"{self.name}{self.value.flat()}"

    def lines(self, indent: str, comma: str) -> list[str]:
        return self.value.lines(indent, self.name, comma)


@dataclass(frozen=True)
class Union(Expression):
    """Types with `|` between them."""

    members: tuple[Expression, ...]

    def flat(self) -> str:
        return " | ".join(each.flat() for each in self.members)

    def exploded(self, indent: str, prefix: str, suffix: str) -> list[str]:
        inner = indent + INDENT
        lines = [f"{inner}{self.flat()}"]
        if width(lines[0]) > LINE_MAX:
            lines = self._member_lines(inner)
        return [f"{indent}{prefix}(", *lines, f"{indent}){suffix}"]

    def _member_lines(self, indent: str) -> list[str]:
        lines: list[str] = []
        for number, each in enumerate(self.members):
            lines += each.lines(indent, "| " if number else "")
        return lines


@dataclass(frozen=True)
class Lambda(Expression):
    """A function without parameters."""

    body: Expression

    def flat(self) -> str:
        return f"lambda: {self.body.flat()}"

    def exploded(self, indent: str, prefix: str, suffix: str) -> list[str]:
        return self.body.lines(indent, f"{prefix}lambda: ", suffix)


def call(function: str, /, *arguments: Expression, **named: Expression) -> Bracketed:
    elements = [Element(each) for each in arguments]
    return Bracketed(
        f"{function}(", (*elements, *(Element(each, f"{name}=") for name, each in named.items())), ")"
    )


def subscript(name: str, *arguments: Expression) -> Bracketed:
    return Bracketed(f"{name}[", tuple(map(Element, arguments)), "]")


def literal(value: Any) -> Expression:
    """Returns the literal of a JSON value, in which sequences are lists and tuples."""
    match value:
        case str():
            return String(value)
        case Mapping():
            return dictionary((key, literal(each)) for key, each in value.items())
        case tuple():
            return Bracketed("(", tuple(Element(literal(each)) for each in value), ")")
        case Sequence():
            return Bracketed("[", tuple(Element(literal(each)) for each in value), "]")
    return Text(repr(value).replace("e+", "e"))


def dictionary(items: Iterable[tuple[str, Expression]]) -> Bracketed:
    return Bracketed("{", tuple(Element(value, f"{quoted(key)}: ") for key, value in items), "}")


def width(line: str) -> int:
    """Returns the columns of a line, as terminals have them: wide characters have two."""
    if line.isascii():
        return len(line)
    return sum(0 if combining(each) else 2 if east_asian_width(each) in "FW" else 1 for each in line)


def quoted(text: str) -> str:
    """Returns a string literal, in the quotes that `ruff format` prefers."""
    inner = repr(text)
    quote, inner = inner[0], inner[1:-1]
    if quote == '"':  # There are single quotes only.
        return f'"{inner}"'
    inner = inner.replace("\\'", "'")
    if '"' not in inner:
        return f'"{inner}"'
    if "'" not in inner or inner.count('"') > inner.count("'"):
        return "'" + inner.replace("'", "\\'") + "'"
    return '"' + inner.replace('"', '\\"') + '"'


def _words(line: str) -> list[str]:
    """Returns the words of a line, each with the spaces after it."""
    return re.findall(r"\S+\s*|\s+", line)
