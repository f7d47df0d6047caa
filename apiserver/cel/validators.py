"""Finds errors in constants and literals that types do not show, after type checks.

Kubernetes uses these of cel-go's validators: cel/validator.go, and ext/formatting.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from apiserver.cel.library import string_format
from apiserver.cel.syntax import Call, Constant, CreateList, CreateMap, Node
from apiserver.cel.types import TypeKind
from apiserver.cel.values import EvaluationError
from apiserver.golang.regex import InvalidPattern, compile_pattern

# Functions whose constant first argument is validated.
CHECKED_FUNCTIONS: Final = frozenset({"duration", "timestamp", "matches"})


@dataclass(slots=True)
class Candidates:
    """The nodes to validate, which the checker collects.

    calls: those of `CHECKED_FUNCTIONS` with a constant. literals: those that are not arguments of a format.
    """

    calls: list[Call] = field(default_factory=list)
    literals: list[CreateList | CreateMap] = field(default_factory=list)
    formats: list[Call] = field(default_factory=list)


def problems(candidates: Candidates) -> Iterator[tuple[Node, str]]:
    """Yields invalid constants, literals that mix types by way of dyn, and invalid format arguments."""
    for call in candidates.calls:
        if not _is_possible(call):
            yield call.args[0], f"invalid {call.function} argument"
    for literal in candidates.literals:
        yield from _mixed(literal)
    for call in candidates.formats:
        yield from _unfit(call)


def _is_possible(call: Call) -> bool:
    constant = call.args[0]
    assert isinstance(constant, Constant)
    try:
        if call.function == "matches":
            compile_pattern(constant.value)
        else:
            call.overloads[0].call(constant.value)
    except (EvaluationError, InvalidPattern):
        return False
    return True


def _mixed(node: CreateList | CreateMap) -> Iterator[tuple[Node, str]]:
    if isinstance(node, CreateList):
        rows = [[(item, index in node.optional)] for index, item in enumerate(node.items)]
    else:
        rows = [
            [(entry.key, False), (entry.value, entry.is_optional)]
            for entry in node.entries
            if not isinstance(entry.key, str)
        ]
    for column in zip(*rows, strict=True):
        types = [
            item.type.element if is_optional and item.type.kind is TypeKind.OPTIONAL else item.type
            for item, is_optional in column
        ]
        for (item, _), type_ in zip(column, types, strict=True):
            if type_ != types[0]:
                yield item, f"expected type '{types[0]}' but found '{type_}'"
                if isinstance(node, CreateList):
                    break


def _unfit(call: Call) -> Iterator[tuple[Node, str]]:
    text = call.target
    if [each.call for each in call.overloads] != [string_format.format_text]:
        return
    if isinstance(text, Constant) and isinstance(args := call.args[0], CreateList):
        found = string_format.misuse(text.value, args.items)
        if found is not None:
            yield found[0] or call, found[1]
