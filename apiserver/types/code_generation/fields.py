"""The lines of a field in the body of a class, in the layout of `ruff format`."""

from __future__ import annotations

from apiserver.types.code_generation.expressions import (
    INDENT,
    LINE_MAX,
    Bracketed,
    Expression,
    String,
    Text,
    width,
)


def field_lines(name: str, annotation: Expression, value: Expression | None) -> list[str]:
    """Returns the lines of `name: annotation = value`, or of `name: annotation`."""
    if value is not None:
        return _assignment(f"{name}: ", annotation, value)
    if isinstance(annotation, Text) and not fits(f"{INDENT}{name}: {annotation.flat()}"):
        return _in_parentheses(annotation, f"{name}: ")
    return annotation.lines(INDENT, f"{name}: ")


def _assignment(name: str, annotation: Expression, value: Expression) -> list[str]:
    """Returns the lines of an assignment. The value is broken, if that is enough, and the type is not."""
    before = f"{name}{annotation.flat()} = "
    if fits(f"{INDENT}{before}{value.flat()}"):
        return [f"{INDENT}{before}{value.flat()}"]
    if isinstance(value, Bracketed) and value.elements and fits(f"{INDENT}{before}{value.opening}"):
        return value.exploded(INDENT, before, "")
    if fits(f"{INDENT}{before}("):
        return _in_parentheses(value, before)
    *lines, last = annotation.exploded(INDENT, name, "")
    before = f"{last.strip()} = "
    if isinstance(value, String) and not fits(f"{INDENT}{before}{value.flat()}"):
        return [*lines, *_in_parentheses(value, before)]
    return [*lines, *value.lines(INDENT, before)]


def _in_parentheses(value: Expression, before: str) -> list[str]:
    """Returns the lines of a value in parentheses, unless its only line is too long in any case."""
    lines = value.lines(INDENT * 2)
    if len(lines) == 1 and not fits(lines[0]):
        return [f"{INDENT}{before}{value.flat()}"]
    return [f"{INDENT}{before}(", *lines, f"{INDENT})"]


def fits(line: str) -> bool:
    return width(line) <= LINE_MAX
