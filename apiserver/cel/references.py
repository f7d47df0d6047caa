"""Finds the variables that an expression reads, and which parts of their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from apiserver.cel import syntax
from apiserver.cel.syntax import Node, children


@dataclass(slots=True, eq=False)
class References:
    """What is read of a value: all of it if `is_whole`, else some fields, and what is read of each."""

    is_whole: bool = False
    fields: dict[str, References] = field(default_factory=dict)

    def of_field(self, name: str) -> References | None:
        """Returns what is read of a field; None if nothing is."""
        return self if self.is_whole else self.fields.get(name)


def references(node: Node) -> References:
    """Returns what an expression reads; the fields are the variables.

    If a loop's variable has the name of another variable, that one counts as read.
    """
    read = References()
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, syntax.Ident | syntax.Select) and (path := _path(node)):
            part = read
            for name in path:
                part = part.fields.setdefault(name, References())
            # A test whether a field is there does not read it.
            part.is_whole |= not (isinstance(node, syntax.Select) and node.is_test)
        else:
            pending.extend(children(node))
    return read


def merged(parts: Iterable[References]) -> References:
    """Returns what any of these reads."""
    parts = list(parts)
    if any(part.is_whole for part in parts):
        return References(is_whole=True)
    names = dict.fromkeys(name for part in parts for name in part.fields)
    return References(
        fields={name: merged(part.fields[name] for part in parts if name in part.fields) for name in names}
    )


def _path(node: Node) -> list[str]:
    """Returns `self`, `a`, `b` for `self.a.b`; nothing if it does not begin with a variable."""
    path: list[str] = []
    while isinstance(node, syntax.Select):
        path.append(node.key or node.field)
        node = node.operand
    return [node.name, *reversed(path)] if isinstance(node, syntax.Ident) else []
