"""What an expression reads: which variables, and which parts of their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from apiserver.cel import syntax
from apiserver.cel.syntax import Node


@dataclass(slots=True, eq=False)
class Part:
    """A part of a value. is_whole: all that is in it may be read; else only some fields, each in part."""

    is_whole: bool = False
    fields: dict[str, Part] = field(default_factory=dict)

    def below(self, name: str) -> Part | None:
        """A field's part; None if it is not read."""
        return self if self.is_whole else self.fields.get(name)


def reads(node: Node) -> Part:
    """What an expression reads; its fields are the variables.

    Where a loop's variable has the name of another one, that one counts as read.
    """
    read = Part()
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, syntax.Ident | syntax.Select) and (way := _way(node)):
            part = read
            for name in way:
                part = part.fields.setdefault(name, Part())
            # Whether a field is there can be told without reading it.
            part.is_whole |= not (isinstance(node, syntax.Select) and node.is_test)
        else:
            pending.extend(_children(node))
    return read


def merged(parts: Iterable[Part]) -> Part:
    """What is read by any of them."""
    parts = list(parts)
    if any(part.is_whole for part in parts):
        return Part(is_whole=True)
    names = dict.fromkeys(name for part in parts for name in part.fields)
    return Part(
        fields={name: merged(part.fields[name] for part in parts if name in part.fields) for name in names}
    )


def _way(node: Node) -> list[str]:
    """`self.a.b` -> self, a, b; nothing if it does not begin with a variable."""
    way: list[str] = []
    while isinstance(node, syntax.Select):
        way.append(node.key or node.field)
        node = node.operand
    return [node.name, *reversed(way)] if isinstance(node, syntax.Ident) else []


def _children(node: Node) -> Iterator[Node]:
    match node:
        case syntax.Select():
            yield node.operand
        case syntax.Call():
            yield from node.args
            if node.target is not None:
                yield node.target
        case syntax.CreateList():
            yield from node.items
        case syntax.CreateMap() | syntax.CreateMessage():
            for entry in node.entries:
                if not isinstance(entry.key, str):
                    yield entry.key
                yield entry.value
        case syntax.Comprehension():
            yield node.range
            if node.condition is not None:
                yield node.condition
            if node.result is not None:
                yield node.result
        case syntax.Bind():
            yield node.value
            yield node.body
        case syntax.Constant() | syntax.Ident():
            pass
