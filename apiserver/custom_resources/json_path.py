"""JSONPath as columns of custom resources have it.

What is known: fields (`.a`, `['a']`, `\\.` for a dot), indexes, slices, wildcards, unions, descent (`..a`)
and filters (`[?(@.type=="Ready")]`). What is absent, or of another kind than a step needs, is not found.
Source: k8s.io/client-go, util/jsonpath.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

# A path is as long as a person writes it.
LENGTH_MAX: Final = 4_096
_DEPTH_MAX: Final = 64
# Values that are looked at: what has not been found by then is not shown.
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


class InvalidPath(ValueError):
    """The text is no path."""


class _BudgetExhausted(Exception):
    """So much has been looked at that the search ends."""


class _Budget:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = VALUES_MAX

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _BudgetExhausted


# Values come and go through a step one by one: only the first that is found is shown.
Step: TypeAlias = Callable[[Any, _Budget], Iterator[Any]]


def compile_path(text: str) -> Callable[[Any], Iterator[Any]]:
    """`.spec.ports[0].name` -> all values found there, in order. Raises InvalidPath."""
    if len(text) > LENGTH_MAX:
        raise InvalidPath("the path is too long")
    steps, rest = _steps(text.strip(), 0)
    if rest:
        raise InvalidPath(f"unexpected {rest[:10]!r}")
    fields = [step.name for step in steps if isinstance(step, _Field)]
    if len(fields) == len(steps):
        return lambda document: _at(fields, document)

    def find(document: Any) -> Iterator[Any]:
        try:
            yield from _found(steps, document, _Budget())
        except _BudgetExhausted:
            return

    return find


def _at(fields: Sequence[str], document: Any) -> Iterator[Any]:
    """What nearly all paths lead to: one value, or none."""
    for field in fields:
        if not isinstance(document, dict) or field not in document:
            return iter(())
        document = document[field]
    return iter((document,))


def _found(steps: list[Step], document: Any, budget: _Budget) -> Iterator[Any]:
    values = iter((document,))
    for step in steps:
        values = _through(step, values, budget)
    return values


def _through(step: Step, values: Iterator[Any], budget: _Budget) -> Iterator[Any]:
    for value in values:
        budget.spend()
        yield from step(value, budget)


def _steps(text: str, depth: int) -> tuple[list[Step], str]:
    """As many steps as there are, and what follows them."""
    if depth > _DEPTH_MAX:
        raise InvalidPath("the path is nested too deeply")
    steps: list[Step] = []
    text = text.removeprefix("$").removeprefix("@")
    while text:
        if text.startswith(".."):
            if not text[2:]:
                raise InvalidPath("expected something to find everywhere")
            steps.append(_descend)
            text = text[2:] if text[2:3] == "[" else text[1:]
        elif text[0] == ".":
            text = text[1:]
            if text.startswith("["):
                continue
            found = _FIELD.match(text)
            if found is None:
                if text:
                    raise InvalidPath(f"expected a field at {text[:10]!r}")
                break  # `.` is the document itself.
            name = re.sub(r"\\(.)", r"\1", found[0])
            steps.append(_all if found[0] == "*" else _Field(name))
            text = text[found.end() :]
        elif text[0] == "[":
            step, text = _bracket(text[1:], depth)
            steps.append(step)
        elif not steps and (found := _FIELD.match(text)):
            steps.append(_Field(found[0]))
            text = text[found.end() :]
        else:
            break
    return steps, text


def _bracket(text: str, depth: int) -> tuple[Step, str]:
    """The step in brackets, whose opening one is behind us, and what follows the closing one."""
    if text.startswith("?("):
        condition, text = _condition(text[2:], depth)
        if not text.startswith(")]"):
            raise InvalidPath("unterminated filter")
        return _filter(condition), text[2:]
    choices: list[Step] = []
    while True:
        text = text.lstrip()
        if found := _QUOTED.match(text):
            choices.append(_Field(_unquoted(found)))
        elif text.startswith("*"):
            found = re.match(r"\*", text)
            choices.append(_all)
        else:
            found = _SLICE.match(text)
            if found is None or not found[0]:
                raise InvalidPath(f"unterminated array at {text[:10]!r}")
            choices.append(_index(int(found[0])) if _INTEGER.fullmatch(found[0]) else _slice(*found.groups()))
        assert found is not None
        text = text[found.end() :].lstrip()
        if text.startswith("]"):
            return choices[0] if len(choices) == 1 else _union(choices), text[1:]
        if not text.startswith(","):
            raise InvalidPath("unterminated array")
        text = text[1:]


def _unquoted(found: re.Match[str]) -> str:
    return re.sub(r"\\(.)", r"\1", found[1] if found[1] is not None else found[2])


# ---- steps


class _Field:
    """A step to a field."""

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
        raise InvalidPath("step must be > 0")

    def step(value: Any, budget: _Budget) -> Iterator[Any]:
        return iter(value[chosen]) if isinstance(value, list) else iter(())

    return step


def _union(choices: list[Step]) -> Step:
    return lambda value, budget: (found for choice in choices for found in choice(value, budget))


def _descend(value: Any, budget: _Budget) -> Iterator[Any]:
    """The value and all that is in it, the outer before the inner."""
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
    found = _COMPARISON.match(text)
    if found is None:
        return (lambda value, budget: bool(left(value, budget))), text.lstrip()
    right, text = _operand(text[found.end() :], depth)
    compare = _OPERATORS[found[1]]

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

        return (lambda value, budget: [*islice(_found(steps, value, budget), 1)]), rest
    if found := _QUOTED.match(text):
        literal: Any = _unquoted(found)
    elif found := re.match(r"-?\d+(\.\d+)?", text):
        literal = float(found[0]) if found[1] else int(found[0])
    elif found := re.match(r"true|false", text):
        literal = found[0] == "true"
    else:
        raise InvalidPath(f"expected a value at {text[:10]!r}")
    return (lambda value, budget: [literal]), text[found.end() :]
