"""Finds the variables that an expression reads, and the parts of their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from apiserver.cel import syntax
from apiserver.cel.syntax import Node, children


@dataclass(slots=True, eq=False)
class References:
    """The parts of a value that are read: all if `is_whole`, else some fields, with the parts of each."""

    is_whole: bool = False
    fields: dict[str, References] = field(default_factory=dict)

    def of_field(self, name: str) -> References | None:
        """Returns the parts of a field that are read; None if it is not read."""
        return self if self.is_whole else self.fields.get(name)


def references(node: Node) -> References:
    """Returns the reads of an expression; the fields are the variables.

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
    """Returns the union of several reads."""
    parts = list(parts)
    if any(part.is_whole for part in parts):
        return References(is_whole=True)
    names = dict.fromkeys(name for part in parts for name in part.fields)
    return References(
        fields={name: merged(part.fields[name] for part in parts if name in part.fields) for name in names}
    )


def _path(node: Node) -> list[str]:
    """Returns `self`, `a`, `b` for `self.a.b`; empty if it does not begin with a variable."""
    path: list[str] = []
    while isinstance(node, syntax.Select):
        path.append(node.key or node.field)
        node = node.operand
    return [node.name, *reversed(path)] if isinstance(node, syntax.Ident) else []
