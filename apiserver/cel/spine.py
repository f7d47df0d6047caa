"""The way down the left of a tree, without recursion: `a + b + c + …` and `x.f().g()…` may be thousands deep.

Other nesting the parser bounds, so only these must be walked by a loop.
"""

from __future__ import annotations

from typing import Final

from apiserver.cel.syntax import Bind, Call, Comprehension, Node, Select

# What a macro binds to use it twice. It is always used, so it is evaluated at once.
MACRO_TARGET: Final = "@target"


def first_operand(node: Node) -> Node | None:
    """The child that comes first and that a chain may continue in; None for a tree without such."""
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
    """The node, changed to have this child where `first_operand` found one."""
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
