"""The nodes of an expression's tree. Macros are expanded: each loop is a `Comprehension` of its macro.

Each node has its offset in the text, in code points. The checker writes types into the nodes, and the
declarations of names and calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from apiserver.cel import types
from apiserver.cel.functions import Overload
from apiserver.cel.types import Type

T = TypeVar("T")


@dataclass(slots=True, eq=False, kw_only=True)
class NodeBase:
    offset: int = 0
    type: Type = types.DYN  # written by the checker


@dataclass(slots=True, eq=False)
class Constant(NodeBase):
    """A literal. value: as in `values`."""

    value: Any


@dataclass(slots=True, eq=False)
class Ident(NodeBase):
    """An identifier. name: `a`, or `.a` for one looked up at the root; the checker writes the full name.

    is_constant: whether the checker found that it names a type or a library's constant, which is `value`.
    """

    name: str
    is_constant: bool = False
    value: Any = None


@dataclass(slots=True, eq=False)
class Select(NodeBase):
    """A selection `operand.field`; is_test: `has(operand.field)`; is_optional: `operand.?field`.

    key: the field's name in documents, if the operand is an object of a schema.
    """

    operand: Node
    field: str
    is_test: bool = False
    is_optional: bool = False
    key: str = ""


@dataclass(slots=True, eq=False)
class Call(NodeBase):
    """A call of a function, a method, or an operator (by cel-go's names: `_+_`, `!_`, `_?_:_`, `_[_]`,
    `@in`).

    overloads: those that fit, set by the checker; more than one if the choice depends on values.
    """

    function: str
    args: tuple[Node, ...]
    target: Node | None = None
    overloads: tuple[Overload, ...] = ()


@dataclass(slots=True, eq=False)
class CreateList(NodeBase):
    """A list. optional: the indices of optionals that are left out if they have no value: `[?a, b]`."""

    items: tuple[Node, ...]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    """An entry of a map, with a node as key; or of a message, with the field's name as key."""

    key: Node | str
    value: Node
    is_optional: bool = False
    offset: int = 0


@dataclass(slots=True, eq=False)
class CreateMap(NodeBase):
    entries: tuple[Entry, ...]


@dataclass(slots=True, eq=False)
class CreateMessage(NodeBase):
    """The creation of a message: `Name{field: value}`."""

    name: str
    entries: tuple[Entry, ...]


Macro: TypeAlias = Literal[
    "all", "exists", "existsOne", "filter", "map", "transformList", "transformMap", "transformMapEntry"
]


@dataclass(slots=True, eq=False)
class Comprehension(NodeBase):
    """A loop over a list's items or a map's keys; with two variables, indices and items or keys and values.

    condition: the predicate (all, exists, existsOne, filter), or the filter of items (others; may be None).
    result: the expression for each item (map, transform*). None for the former.
    """

    macro: Macro
    variables: tuple[str, ...]
    range: Node
    condition: Node | None = None
    result: Node | None = None


@dataclass(slots=True, eq=False)
class Bind(NodeBase):
    """A binding `cel.bind(name, value, body)`: the value is evaluated once, when the body first needs it."""

    name: str
    value: Node
    body: Node


Node: TypeAlias = (
    Constant | Ident | Select | Call | CreateList | CreateMap | CreateMessage | Comprehension | Bind
)


def children(node: Node) -> Iterator[Node]:
    """Yields the child nodes of a node."""
    match node:
        case Select():
            yield node.operand
        case Call():
            yield from node.args
            if node.target is not None:
                yield node.target
        case CreateList():
            yield from node.items
        case CreateMap() | CreateMessage():
            for entry in node.entries:
                if not isinstance(entry.key, str):
                    yield entry.key
                yield entry.value
        case Comprehension():
            yield node.range
            yield from (each for each in (node.condition, node.result) if each is not None)
        case Bind():
            yield node.value
            yield node.body
        case Constant() | Ident():
            pass


# ---- chains: `a + b + c + …` and `x.f().g()…` may be thousands deep, so they are walked by loops


# The variable by which a macro uses its target twice. It is always used, so it is evaluated at once.
MACRO_TARGET: Final = "@target"


def first_operand(node: Node) -> Node | None:
    """Returns the child that is evaluated first, in which a chain may continue; None if there is none."""
    if isinstance(node, Call):
        if node.target is not None:
            return node.target
        return node.args[0] if node.args else None
    if isinstance(node, Select):
        return node.operand
    if isinstance(node, Comprehension):
        return node.range
    if isinstance(node, Bind) and node.name == MACRO_TARGET:
        return node.value
    return None


def with_first_operand(node: Node, child: Node) -> Node:
    """Replace the child that `first_operand` returns; returns the node."""
    if isinstance(node, Call):
        if node.target is not None:
            node.target = child
        else:
            node.args = (child, *node.args[1:])
    elif isinstance(node, Select):
        node.operand = child
    elif isinstance(node, Comprehension):
        node.range = child
    elif isinstance(node, Bind):
        node.value = child
    return node


class Scopes(Generic[T]):
    """The variables that macros declare around a node, for walks over a tree."""

    def __init__(self) -> None:
        self._locals: dict[str, T] = {}

    @contextmanager
    def _scope(self, variables: Mapping[str, T]) -> Iterator[None]:
        outer = self._locals
        self._locals = {**outer, **variables}
        yield
        self._locals = outer


# ---- errors


@dataclass(frozen=True, slots=True)
class Issue:
    """An error in an expression. offset: in code points; None if it concerns the whole expression."""

    message: str
    offset: int | None = None
    is_syntax: bool = field(default=False, compare=False)


class InvalidExpression(Exception):
    """An expression that does not parse, or does not check. `str()` is cel-go's message.

    ERROR: <input>:1:6: undefined field 'b'
     | self.b
     | .....^
    """

    def __init__(self, source: str, issues: Sequence[Issue]) -> None:
        super().__init__(source, issues)
        self.source, self.issues = source, tuple(issues)

    def __str__(self) -> str:
        shown, left = [], SHOWN_CHARACTERS_MAX
        for issue in self.issues:
            shown.append(_shown(self.source, issue))
            left -= len(shown[-1])
            if left < 0:
                break
        return "\n".join(shown)


# Longer lines are not shown with an arrow below them, as cel-go does.
SHOWN_LINE_MAX = 4096
ISSUES_MAX = 100
# Each issue repeats its line. After so many characters no more are shown, that answers do not grow to many
# times the size of what was sent.
SHOWN_CHARACTERS_MAX = 100_000


def _shown(source: str, issue: Issue) -> str:
    if issue.offset is None:
        return f"ERROR: <input>:-1:0: {issue.message}"
    line, column = position(source, issue.offset)
    text = source.split("\n")[line - 1].replace("\t", " ")
    shown = f"ERROR: <input>:{line}:{column}: {issue.message}"
    if len(text) <= SHOWN_LINE_MAX:
        dots = "".join("\uff0e" if _is_wide(c) else "." for c in text[: column - 1])
        arrow = "\uff3e" if column <= len(text) and _is_wide(text[column - 1]) else "^"
        shown += f"\n | {text}\n | {dots}{arrow}"
    return shown


def position(source: str, offset: int) -> tuple[int, int]:
    """Returns the line and the column of an offset in a text, both from 1."""
    before = source[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")


def _is_wide(character: str) -> bool:
    return ord(character) > 0x7F
