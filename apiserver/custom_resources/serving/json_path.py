"""Implements JSONPath for printer columns of custom resources.

Supported are fields (`.a`, `['a']`, `\\.` for a dot), indexes, slices, wildcards, unions, descent (`..a`) and
filters (`[?(@.type=="Ready")]`). Values that are absent, or of another type than a step needs, are not found.
Source: k8s.io/client-go, util/jsonpath.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

# The most characters of a path.
LENGTH_MAX: Final = 4_096
_DEPTH_MAX: Final = 64
# The most values that a search visits; it does not find values beyond.
VALUES_MAX: Final = 20_000

_FIELD: Final = re.compile(r"""(?:[^\\.,\[\]{}()\s=!<>$@'"]|\\.)+""")
_INTEGER: Final = re.compile(r"-?\d+")
_SLICE: Final = re.compile(r"(-?\d+)?(?::(-?\d+)?)?(?::(-?\d+)?)?")
_QUOTED: Final = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_COMPARISON: Final = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*")
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


class InvalidJsonPath(ValueError):
    """The text is not a valid path."""


class _BudgetExhausted(Exception):
    """The search has visited the maximum number of values."""


class _Budget:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = VALUES_MAX

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _BudgetExhausted


# A step maps values lazily, since only the first value found is shown.
Step: TypeAlias = Callable[[Any, _Budget], Iterator[Any]]


def compile_path(text: str) -> Callable[[Any], Iterator[Any]]:
    """Compiles a path to a function that yields all values found, in order. Raises InvalidJsonPath."""
    if len(text) > LENGTH_MAX:
        raise InvalidJsonPath("the path is too long")
    steps, rest = _steps(text.strip(), 0)
    if rest:
        raise InvalidJsonPath(f"unexpected {rest[:10]!r}")
    fields = [step.name for step in steps if isinstance(step, _Field)]
    if len(fields) == len(steps):
        return lambda document: _at(fields, document)

    def find(document: Any) -> Iterator[Any]:
        try:
            yield from _evaluate(steps, document, _Budget())
        except _BudgetExhausted:
            return

    return find


def _at(fields: Sequence[str], document: Any) -> Iterator[Any]:
    """Finds the value of a path of fields, which nearly all paths are."""
    for field in fields:
        if not isinstance(document, dict) or field not in document:
            return iter(())
        document = document[field]
    return iter((document,))


def _evaluate(steps: list[Step], document: Any, budget: _Budget) -> Iterator[Any]:
    """Yields the found values, depth first, without nested generators, whose number Python limits."""
    # The values that the first step is for, those that it has found, and so on; the last are the results.
    values = [iter((document,))]
    while values:
        try:
            value = next(values[-1])
        except StopIteration:
            values.pop()
            continue
        if len(values) > len(steps):
            yield value
            continue
        budget.spend()
        values.append(steps[len(values) - 1](value, budget))


def _steps(text: str, depth: int) -> tuple[list[Step], str]:
    """Parses steps; returns them and the text that follows."""
    if depth > _DEPTH_MAX:
        raise InvalidJsonPath("the path is nested too deeply")
    steps: list[Step] = []
    text = text.removeprefix("$").removeprefix("@")
    while text:
        if text.startswith(".."):
            if not text[2:]:
                raise InvalidJsonPath("expected a step after ..")
            steps.append(_descend)
            text = text[2:] if text[2:3] == "[" else text[1:]
        elif text[0] == ".":
            text = text[1:]
            if text.startswith("["):
                continue
            match = _FIELD.match(text)
            if match is None:
                if text:
                    raise InvalidJsonPath(f"expected a field at {text[:10]!r}")
                break  # `.` is the document itself.
            name = re.sub(r"\\(.)", r"\1", match[0])
            steps.append(_all if match[0] == "*" else _Field(name))
            text = text[match.end() :]
        elif text[0] == "[":
            step, text = _bracket(text[1:], depth)
            steps.append(step)
        elif not steps and (match := _FIELD.match(text)):
            steps.append(_Field(match[0]))
            text = text[match.end() :]
        else:
            break
    return steps, text


def _bracket(text: str, depth: int) -> tuple[Step, str]:
    """Parses a step after its opening bracket; returns it and the text after the closing one."""
    if text.startswith("?("):
        condition, text = _condition(text[2:], depth)
        if not text.startswith(")]"):
            raise InvalidJsonPath("unterminated filter")
        return _filter(condition), text[2:]
    choices: list[Step] = []
    while True:
        text = text.lstrip()
        if match := _QUOTED.match(text):
            choices.append(_Field(_unquoted(match)))
        elif text.startswith("*"):
            match = re.match(r"\*", text)
            choices.append(_all)
        else:
            match = _SLICE.match(text)
            if match is None or not match[0]:
                raise InvalidJsonPath(f"unterminated array at {text[:10]!r}")
            choices.append(_index(int(match[0])) if _INTEGER.fullmatch(match[0]) else _slice(*match.groups()))
        assert match is not None
        text = text[match.end() :].lstrip()
        if text.startswith("]"):
            return choices[0] if len(choices) == 1 else _union(choices), text[1:]
        if not text.startswith(","):
            raise InvalidJsonPath("unterminated array")
        text = text[1:]


def _unquoted(match: re.Match[str]) -> str:
    return re.sub(r"\\(.)", r"\1", match[1] if match[1] is not None else match[2])


# ---- steps


class _Field:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, value: Any, budget: _Budget) -> Iterator[Any]:
        return iter((value[self.name],)) if isinstance(value, dict) and self.name in value else iter(())


def _all(value: Any, budget: _Budget) -> Iterator[Any]:
    if isinstance(value, dict):
        return iter(value.values())
    return iter(value) if isinstance(value, list) else iter(())


def _index(position: int) -> Step:
    def step(value: Any, budget: _Budget) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= position < len(value):
            yield value[position]

    return step


def _slice(start: str | None, stop: str | None, step_text: str | None) -> Step:
    chosen = slice(*(int(each) if each else None for each in (start, stop, step_text)))
    if chosen.step is not None and chosen.step <= 0:
        raise InvalidJsonPath("step must be > 0")

    def step(value: Any, budget: _Budget) -> Iterator[Any]:
        return iter(value[chosen]) if isinstance(value, list) else iter(())

    return step


def _union(choices: list[Step]) -> Step:
    return lambda value, budget: (each for choice in choices for each in choice(value, budget))


def _descend(value: Any, budget: _Budget) -> Iterator[Any]:
    """Yields the value and all values in it, outer before inner."""
    todo = [value]
    while todo:
        each = todo.pop()
        budget.spend()
        yield each
        todo += [child for child in [*_all(each, budget)][::-1] if isinstance(child, dict | list)]


def _filter(condition: Callable[[Any, _Budget], bool]) -> Step:
    def step(value: Any, budget: _Budget) -> Iterator[Any]:
        for each in _all(value, budget):
            budget.spend()
            if condition(each, budget):
                yield each

    return step


# ---- filters

_Operand: TypeAlias = Callable[[Any, _Budget], "list[Any]"]
_Condition: TypeAlias = Callable[[Any, _Budget], bool]


def _condition(text: str, depth: int) -> tuple[_Condition, str]:
    left, text = _operand(text, depth)
    match = _COMPARISON.match(text)
    if match is None:
        return (lambda value, budget: bool(left(value, budget))), text.lstrip()
    right, text = _operand(text[match.end() :], depth)
    compare = _OPERATORS[match[1]]

    def condition(value: Any, budget: _Budget) -> bool:
        a, b = left(value, budget), right(value, budget)
        try:
            return bool(a) and bool(b) and compare(a[0], b[0])
        except TypeError:  # of different kinds
            return False

    return condition, text.lstrip()


def _operand(text: str, depth: int) -> tuple[_Operand, str]:
    text = text.lstrip()
    if text.startswith(("@", "$")):
        steps, rest = _steps(text, depth + 1)

        return (lambda value, budget: [*islice(_evaluate(steps, value, budget), 1)]), rest
    if match := _QUOTED.match(text):
        literal: Any = _unquoted(match)
    elif match := re.match(r"-?\d+(\.\d+)?", text):
        literal = float(match[0]) if match[1] else int(match[0])
    elif match := re.match(r"true|false", text):
        literal = match[0] == "true"
    else:
        raise InvalidJsonPath(f"expected a value at {text[:10]!r}")
    return (lambda value, budget: [literal]), text[match.end() :]
