"""The tree of an expression. Macros are expanded: what loops is a `Comprehension` of its own kind.

Each node knows where it stands in the text (an offset in code points). The checker writes into it: its type,
and what names and calls have turned out to mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from apiserver.cel import types
from apiserver.cel.types import Type

if TYPE_CHECKING:
    from apiserver.cel.functions import Overload


@dataclass(slots=True, eq=False, kw_only=True)
class NodeBase:
    offset: int = 0
    type: Type = types.DYN  # written by the checker


@dataclass(slots=True, eq=False)
class Constant(NodeBase):
    """value: as `values` has it."""

    value: Any


@dataclass(slots=True, eq=False)
class Ident(NodeBase):
    """name: `a`, or `.a` for one that is looked up at the root; the checker writes the full name.

    is_constant: the checker found that it names a type or a library's constant, which is `value`.
    """

    name: str
    is_constant: bool = False
    value: Any = None


@dataclass(slots=True, eq=False)
class Select(NodeBase):
    """`operand.field`; is_test: `has(operand.field)`; is_optional: `operand.?field`.

    key: the field's real name in documents, where the operand is an object of a schema.
    """

    operand: Node
    field: str
    is_test: bool = False
    is_optional: bool = False
    key: str = ""


@dataclass(slots=True, eq=False)
class Call(NodeBase):
    """A function, an operator (by cel-go's names: `_+_`, `!_`, `_?_:_`, `_[_]`, `_[?_]`, `@in`), or a method.

    overloads: those that fit, by the checker's finding; more than one if that shows only in evaluation.
    """

    function: str
    args: tuple[Node, ...]
    target: Node | None = None
    overloads: tuple[Overload, ...] = ()


@dataclass(slots=True, eq=False)
class CreateList(NodeBase):
    """optional: the indices of items that are optionals to be left out if they have no value: `[?a, b]`."""

    items: tuple[Node, ...]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    """Of a map: key is a node. Of a message: the field's name."""

    key: Node | str
    value: Node
    is_optional: bool = False
    offset: int = 0


@dataclass(slots=True, eq=False)
class CreateMap(NodeBase):
    entries: tuple[Entry, ...]


@dataclass(slots=True, eq=False)
class Message(NodeBase):
    """`Name{field: value}`."""

    name: str
    entries: tuple[Entry, ...]


Macro: TypeAlias = Literal[
    "all", "exists", "existsOne", "filter", "map", "transformList", "transformMap", "transformMapEntry"
]


@dataclass(slots=True, eq=False)
class Comprehension(NodeBase):
    """A loop over a list's items or a map's keys; with two variables, indices and items or keys and values.

    condition: which it is about (all, exists, existsOne, filter), or which are taken (others; may be None).
    result: what is made of each one taken (map, transform*). None for the former.
    """

    macro: Macro
    variables: tuple[str, ...]
    range: Node
    condition: Node | None = None
    result: Node | None = None


@dataclass(slots=True, eq=False)
class Bind(NodeBase):
    """`cel.bind(name, value, body)`: value is evaluated when the body first needs it, once."""

    name: str
    value: Node
    body: Node


Node: TypeAlias = Constant | Ident | Select | Call | CreateList | CreateMap | Message | Comprehension | Bind


# ---- what is wrong with a text


@dataclass(frozen=True, slots=True)
class Issue:
    """offset: in code points; None if it is about the whole."""

    message: str
    offset: int | None = None
    is_syntax: bool = field(default=False, compare=False)


class Invalid(Exception):
    """The expression does not parse, or does not check. `str()` is what cel-go prints of it.

    ERROR: <input>:1:6: undefined field 'b'
     | self.b
     | .....^
    """

    def __init__(self, source: str, issues: Sequence[Issue]) -> None:
        super().__init__(source, issues)
        self.source, self.issues = source, tuple(issues)

    def __str__(self) -> str:
        return "\n".join(_shown(self.source, issue) for issue in self.issues)


# More of a line is not shown with an arrow below it; so does cel-go.
SHOWN_LINE_MAX = 4096
ISSUES_MAX = 100


def _shown(source: str, issue: Issue) -> str:
    if issue.offset is None:
        return f"ERROR: <input>:-1:0: {issue.message}"
    before = source[: issue.offset]
    line = before.count("\n") + 1
    column = issue.offset - (before.rfind("\n") + 1)
    text = source.split("\n")[line - 1].replace("\t", " ")
    shown = f"ERROR: <input>:{line}:{column + 1}: {issue.message}"
    if len(text) <= SHOWN_LINE_MAX:
        dots = "".join("\uff0e" if _is_wide(c) else "." for c in text[:column])
        arrow = "\uff3e" if column < len(text) and _is_wide(text[column]) else "^"
        shown += f"\n | {text}\n | {dots}{arrow}"
    return shown


def _is_wide(character: str) -> bool:
    return ord(character) > 0x7F
