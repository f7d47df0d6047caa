"""The macros `cel.block(…)`, `cel.index(…)`, `cel.iterVar(…)` and `cel.accuVar(…)`, which optimizers write.

Source: cel-spec, tests/simple/testdata/block_ext.textproto.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.cel.functions import MacroError, MacroRule
from apiserver.cel.syntax import Bind, Call, Constant, CreateList, Ident, Node
from apiserver.cel.values import INT_MAX


def _of_cel(name: str, arg_count: int, expand: Callable[[int, tuple[Node, ...]], Node]) -> MacroRule:
    """`cel.name(…)`; methods of that name on anything else are no macros."""

    def expand_of_cel(offset: int, target: Node | None, args: tuple[Node, ...]) -> Node:
        if isinstance(target, Ident) and target.name == "cel":
            return expand(offset, args)
        return Call(name, args, target, offset=offset)

    return MacroRule(name, arg_count, True, expand_of_cel)


def _block(offset: int, args: tuple[Node, ...]) -> Node:
    slots, body = args
    if not isinstance(slots, CreateList):
        raise MacroError("cel.block requires the first arg to be a list literal", slots.offset)
    for index, slot in reversed(list(enumerate(slots.items))):
        body = Bind(f"@index{index}", slot, body, offset=offset)
    return body


def _index(offset: int, args: tuple[Node, ...]) -> Node:
    return Ident(
        f"@index{_number(args[0], 'cel.index requires a single non-negative int constant arg')}",
        offset=offset,
    )


def _numbered(prefix: str, name: str) -> Callable[[int, tuple[Node, ...]], Node]:
    complaint = f"cel.{name} requires two non-negative int constant args"

    def expand(offset: int, args: tuple[Node, ...]) -> Node:
        return Ident(f"{prefix}:{_number(args[0], complaint)}:{_number(args[1], complaint)}", offset=offset)

    return expand


def _number(node: Node, complaint: str) -> int:
    if isinstance(node, Constant) and type(node.value) is int and 0 <= node.value <= INT_MAX:
        return node.value
    raise MacroError(complaint, node.offset)


BLOCKS: Final[tuple[MacroRule, ...]] = (
    _of_cel("block", 2, _block),
    _of_cel("index", 1, _index),
    _of_cel("iterVar", 2, _numbered("@it", "iterVar")),
    _of_cel("accuVar", 2, _numbered("@ac", "accuVar")),
)
