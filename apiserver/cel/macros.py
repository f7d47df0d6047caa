"""The macros: calls that are rewritten while the text is parsed, as by cel-go's parser and its extensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from apiserver.cel.declarations import MacroError, MacroRule
from apiserver.cel.syntax import MACRO_TARGET, Bind, Call, Comprehension, Ident, Macro, Node, Select

# What cel-go would call its accumulator; it takes no variable of that name.
_ACCUMULATORS: Final = frozenset({"__result__", "@result"})


def by_name(*libraries: Sequence[MacroRule]) -> Mapping[tuple[str, bool], tuple[MacroRule, ...]]:
    """Returns rules in the form for `parser.parse`: by name and whether they are methods."""
    found: dict[tuple[str, bool], tuple[MacroRule, ...]] = {}
    for rules in libraries:
        for rule in rules:
            key = (rule.name, rule.is_method)
            found[key] = (*found.get(key, ()), rule)
    return found


def _variable(node: Node, complaint: str) -> str:
    if not isinstance(node, Ident) or node.name.startswith("."):
        raise MacroError(complaint, node.offset)
    return node.name


def _iteration_variable(node: Node, complaint: str) -> str:
    name = _variable(node, complaint)
    if name in _ACCUMULATORS:
        raise MacroError("iteration variable overwrites accumulator variable", node.offset)
    return name


def _has(offset: int, target: Node | None, args: tuple[Node, ...]) -> Node:
    selected = args[0]
    if not isinstance(selected, Select) or selected.is_optional:
        raise MacroError("invalid argument to has() macro", selected.offset)
    return Select(selected.operand, selected.field, is_test=True, offset=offset)


def _loop(
    macro: Macro, *, of: str, variables: int = 1, complaint: str = "argument must be a simple name"
) -> Callable[[int, Node | None, tuple[Node, ...]], Node]:
    """Returns the rule of a loop.

    of: the arguments after the variables: a (c)ondition, a (r)esult, in order.
    """

    def expand(offset: int, target: Node | None, args: tuple[Node, ...]) -> Node:
        assert target is not None
        names = _names(args[:variables], complaint)
        parts = dict(zip(of, args[variables:], strict=True))
        return Comprehension(macro, names, target, parts.get("c"), parts.get("r"), offset=offset)

    return expand


def _names(nodes: Sequence[Node], complaint: str) -> tuple[str, ...]:
    if len(nodes) == 1:
        return (_iteration_variable(nodes[0], complaint),)
    names = [_variable(node, complaint) for node in nodes]
    if names[0] == names[1]:
        raise MacroError(f"duplicate variable name: {names[0]}", nodes[1].offset)
    return tuple(_iteration_variable(node, complaint) for node in nodes)


_NO_IDENTIFIER: Final = "argument is not an identifier"

STANDARD: Final[tuple[MacroRule, ...]] = (
    MacroRule("has", 1, False, _has),
    MacroRule("all", 2, True, _loop("all", of="c")),
    MacroRule("exists", 2, True, _loop("exists", of="c")),
    MacroRule("exists_one", 2, True, _loop("existsOne", of="c")),
    MacroRule("existsOne", 2, True, _loop("existsOne", of="c")),
    MacroRule("map", 2, True, _loop("map", of="r", complaint=_NO_IDENTIFIER)),
    MacroRule("map", 3, True, _loop("map", of="cr", complaint=_NO_IDENTIFIER)),
    MacroRule("filter", 2, True, _loop("filter", of="c", complaint=_NO_IDENTIFIER)),
)

TWO_VARIABLES: Final[tuple[MacroRule, ...]] = (
    MacroRule("all", 3, True, _loop("all", of="c", variables=2)),
    MacroRule("exists", 3, True, _loop("exists", of="c", variables=2)),
    MacroRule("existsOne", 3, True, _loop("existsOne", of="c", variables=2)),
    MacroRule("exists_one", 3, True, _loop("existsOne", of="c", variables=2)),
    MacroRule("transformList", 3, True, _loop("transformList", of="r", variables=2)),
    MacroRule("transformList", 4, True, _loop("transformList", of="cr", variables=2)),
    MacroRule("transformMap", 3, True, _loop("transformMap", of="r", variables=2)),
    MacroRule("transformMap", 4, True, _loop("transformMap", of="cr", variables=2)),
    MacroRule("transformMapEntry", 3, True, _loop("transformMapEntry", of="r", variables=2)),
    MacroRule("transformMapEntry", 4, True, _loop("transformMapEntry", of="cr", variables=2)),
)


# ---- optional values

# No text can name `MACRO_TARGET`. Each use binds it anew around itself, so nested ones do not meet.


def _optional_map(name: str, *, is_flat: bool) -> MacroRule:
    def expand(offset: int, target: Node | None, args: tuple[Node, ...]) -> Node:
        assert target is not None
        variable = _variable(args[0], f"{name}() variable name must be a simple identifier")

        def call(function: str, *arguments: Node, of: Node | None = None) -> Call:
            return Call(function, arguments, of, offset=offset)

        def bound() -> Ident:
            return Ident(MACRO_TARGET, offset=offset)

        mapped: Node = Bind(variable, call("value", of=bound()), args[1], offset=offset)
        if not is_flat:
            mapped = call("optional.of", mapped)
        chosen = call("_?_:_", call("hasValue", of=bound()), mapped, call("optional.none"))
        return Bind(MACRO_TARGET, target, chosen, offset=offset)

    return MacroRule(name, 2, True, expand)


OPTIONAL_MACROS: Final[tuple[MacroRule, ...]] = (
    _optional_map("optMap", is_flat=False),
    _optional_map("optFlatMap", is_flat=True),
)


# ---- local variables


def _bind(offset: int, target: Node | None, args: tuple[Node, ...]) -> Node:
    """Expands `cel.bind(…)`; methods with that name on other targets are not macros."""
    if not isinstance(target, Ident) or target.name != "cel":
        return Call("bind", args, target, offset=offset)
    name = _variable(args[0], "cel.bind() variable names must be simple identifiers")
    return Bind(name, args[1], args[2], offset=offset)


BINDINGS: Final[tuple[MacroRule, ...]] = (MacroRule("bind", 3, True, _bind),)
