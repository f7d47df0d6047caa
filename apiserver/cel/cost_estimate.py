"""Estimates the worst-case cost of an expression, by the size limits of its schema.

Kubernetes refuses a rule whose worst case costs too much, so costs are exactly cel-go's: the cost of each
kind of node, the count of a loop's body, and which sizes are known. Where cel-go does not know a size (or
knows one by accident), the estimate does the same; otherwise it would refuse definitions that Kubernetes
accepts, or accept those that it refuses.

Source: cel-go checker/cost.go; k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from apiserver.cel import syntax
from apiserver.cel.functions import (
    ANY,
    LIST_COST,
    MAP_COST,
    MESSAGE_COST,
    NOTHING,
    ONE,
    STRING_FACTOR,
    UNBOUNDED,
    Argument,
    Bounds,
    CallEstimate,
    Overload,
)
from apiserver.cel.syntax import MACRO_TARGET, Node, Scopes, first_operand
from apiserver.cel.types import Type, TypeKind, list_of


def estimate(node: Node, root: Type) -> Bounds:
    """Returns the bounds of the cost of evaluating a checked tree.

    root: the type of the validated value, with its sizes. All variables have this type.
    """
    return _Estimator(root).of(node).cost


class _Origin(NamedTuple):
    """The place in the schema that a value is from. type: None if it is not known any more."""

    type: Type | None
    is_known: bool = True

    @property
    def size(self) -> Bounds | None:
        """The bounds that the schema sets; 0 for values that have no size, such as numbers."""
        return None if self.type is None else Bounds(0, self.type.size_max or 0)


_UNKNOWN_ORIGIN: Final = _Origin(None, is_known=False)


class _NodeEstimate(NamedTuple):
    """The estimates for a node: its cost, and the size and origin of its value.

    size: that of its value; None if it is unknown whether the value has a size.
    entry: the size of the items of a list, or of a map's values, that the expression made itself.
    """

    cost: Bounds
    size: Bounds | None = None
    origin: _Origin = _UNKNOWN_ORIGIN
    entry: Bounds | None = None

    @property
    def size_or_any(self) -> Bounds:
        return ANY if self.size is None else self.size


class _LoopCost(NamedTuple):
    """The cost of a loop without its condition and its result: at its start, in each iteration, at its end.

    result: the cost of taking an item, without the expression for it; None where nothing is taken.
    """

    start: int
    turn: int
    result: int | None = None
    end: int = 1


# From how cel-go expands the macros: reading the accumulator costs 1, and so does any operator on it.
_LOOPS: Final = {
    "all": _LoopCost(start=0, turn=2),
    "exists": _LoopCost(start=0, turn=3),
    "existsOne": _LoopCost(start=0, turn=0, result=2, end=2),
    "filter": _LoopCost(start=LIST_COST, turn=0, result=3 + LIST_COST),
    "map": _LoopCost(start=LIST_COST, turn=0, result=2 + LIST_COST),
    "transformList": _LoopCost(start=LIST_COST, turn=0, result=2 + LIST_COST),
    "transformMap": _LoopCost(start=MAP_COST, turn=0, result=3),
    "transformMapEntry": _LoopCost(start=MAP_COST, turn=0, result=2),
}
_MADE_LISTS: Final = frozenset({"filter", "map", "transformList"})
_SHORT_CIRCUITS: Final = frozenset({"_&&_", "_||_"})
_ADDED: Final = frozenset({"add_list", "add_string", "add_bytes"})
_INDEXED: Final = {"index_list": "@items", "index_map": "@values"}
_EQUALITIES: Final = frozenset({"equals", "not_equals"})
_SIZED: Final[Mapping[str, Callable[[Bounds], Bounds]]] = {
    "kubernetes.NamedFormat": lambda size: Bounds(1, 64),  # the longest name
    "kubernetes.URL": lambda size: Bounds(1, 1 if size == ANY else size.high),
}
_SELECTED: Final = frozenset({TypeKind.MAP, TypeKind.OBJECT, TypeKind.PARAMETER})
_SCALARS: Final = frozenset(
    {TypeKind.BOOL, TypeKind.DOUBLE, TypeKind.DURATION, TypeKind.INT, TypeKind.TIMESTAMP, TypeKind.UINT}
)


class _Estimator(Scopes[_NodeEstimate]):
    def __init__(self, root: Type) -> None:
        super().__init__()
        self._root = root

    def of(self, node: Node) -> _NodeEstimate:
        # Along first operands without recursion: chains of operators may be long.
        above = []
        while (child := first_operand(node)) is not None:
            above.append(node)
            node = child
        found = self._leaf(node)
        for parent in reversed(above):
            found = self._inner(parent, found)
        return found

    def _leaf(self, node: Node) -> _NodeEstimate:
        match node:
            case syntax.Constant():
                return _NodeEstimate(NOTHING, _constant_size(node.value))
            case syntax.Ident():
                return self._ident(node)
            case syntax.CreateList():
                return self._list(node)
            case syntax.CreateMap():
                return self._map(node)
            case syntax.CreateMessage():
                cost = _sum(self.of(entry.value).cost for entry in node.entries)
                return _NodeEstimate(cost.plus(_fixed(MESSAGE_COST)))
            case syntax.Bind():
                return self._bind(node, self.of(node.value))
            case _:
                assert isinstance(node, syntax.Call)
                return self._call(node, [])

    def _inner(self, node: Node, first: _NodeEstimate) -> _NodeEstimate:
        """Estimate a node whose first operand has been estimated."""
        match node:
            case syntax.Select():
                return self._select(node, first)
            case syntax.Comprehension():
                return self._comprehension(node, first)
            case syntax.Bind():
                # cel-go has what is bound twice in its tree.
                with self._scope({node.name: first}):
                    return self.of(node.body)
            case _:
                assert isinstance(node, syntax.Call)
                rest = node.args if node.target is not None else node.args[1:]
                return self._call(node, [first, *map(self.of, rest)])

    def _ident(self, node: syntax.Ident) -> _NodeEstimate:
        local = self._locals.get(node.name)
        if local is None:
            return self._at_origin(node, ONE, _Origin(self._root))
        if node.name == MACRO_TARGET:
            return local
        found = self._at_origin(node, ONE, local.origin)
        return found._replace(size=local.size if found.size is None else found.size, entry=local.entry)

    def _select(self, node: syntax.Select, operand: _NodeEstimate) -> _NodeEstimate:
        if node.is_test:
            return _NodeEstimate(operand.cost, ONE)
        if node.is_optional:
            return _NodeEstimate(operand.cost.plus(ONE), _type_size(node.type))
        cost = operand.cost.plus(ONE) if node.operand.type.kind in _SELECTED else operand.cost
        return self._at_origin(node, cost, self._step(operand.origin, node.field))

    def _at_origin(self, node: Node, cost: Bounds, origin: _Origin) -> _NodeEstimate:
        size = origin.size
        return _NodeEstimate(cost, _type_size(node.type) if size is None else size, origin)

    def _step(self, origin: _Origin, name: str) -> _Origin:
        """Returns the origin one step down: a field, or "@items", "@values", "@keys", "@indices".

        A step from no known origin is cel-go's step to the root, since the first name of a path is not read.
        """
        if not origin.is_known:
            return _Origin(self._root)
        above = origin.type
        if above is None:
            return origin
        match name, above.kind:
            case (("@items" | "@values"), TypeKind.LIST):
                return _Origin(above.element)
            case (("@items" | "@values"), TypeKind.MAP):
                return _Origin(above.value)
            case "@keys", TypeKind.MAP:
                return _Origin(above.key)
        field = above.fields.get(name)
        return _Origin(None if field is None else field.type)

    # ---- calls

    def _call(self, node: syntax.Call, args: list[_NodeEstimate]) -> _NodeEstimate:
        """Estimate a call. args: the receiver first, if there is one."""
        if node.function == "dyn":
            return _NodeEstimate(args[0].cost.plus(ONE), args[0].size, entry=args[0].entry)
        if node.function in _SHORT_CIRCUITS:
            return _NodeEstimate(Bounds(args[0].cost.low, _sum(arg.cost for arg in args).high), ONE)
        if node.function == "_?_:_":
            condition, yes, no = args
            return _NodeEstimate(
                condition.cost.plus(yes.cost.union(no.cost)),
                yes.size_or_any.union(no.size_or_any),
                entry=_union(yes.entry, no.entry),
            )
        return self._function(node, args)

    def _function(self, node: syntax.Call, args: list[_NodeEstimate]) -> _NodeEstimate:
        nodes = node.args if node.target is None else (node.target, *node.args)
        arguments = [_argument(node, found) for node, found in zip(nodes, args, strict=True)]
        own: Bounds | None = None
        size: Bounds | None = None
        origin = _UNKNOWN_ORIGIN
        for overload in node.overloads:
            estimated = _estimated(overload, arguments)
            own = estimated.cost if own is None else own.union(estimated.cost)
            if estimated.size is not None:
                size = estimated.size if size is None else size.union(estimated.size)
            if step := _INDEXED.get(overload.id):
                size, origin = args[0].entry, self._step(args[0].origin, step)
            if size is None:
                size = self._at_origin(node, NOTHING, origin).size
        if own is None:
            return _NodeEstimate(NOTHING)
        added = any(overload.id in _ADDED for overload in node.overloads)
        entry = _union(args[0].entry, args[1].entry) if added else None
        return _NodeEstimate(own.plus(_sum(arg.cost for arg in args)), size, origin, entry)

    # ---- what expressions make

    def _list(self, node: syntax.CreateList) -> _NodeEstimate:
        items = [self.of(item) for item in node.items]
        cost = _sum(item.cost for item in items).plus(_fixed(LIST_COST))
        return _NodeEstimate(cost, _fixed(len(items)), entry=_any_of(items))

    def _map(self, node: syntax.CreateMap) -> _NodeEstimate:
        keys = [self.of(entry.key) for entry in node.entries if not isinstance(entry.key, str)]
        values = [self.of(entry.value) for entry in node.entries]
        cost = _sum(found.cost for found in (*keys, *values)).plus(_fixed(MAP_COST))
        return _NodeEstimate(cost, _fixed(len(values)), entry=_any_of(values))

    def _bind(self, node: syntax.Bind, value: _NodeEstimate) -> _NodeEstimate:
        with self._scope({node.name: value}):
            body = self.of(node.body)
        # cel-go's binding is a loop over an empty list, which it counts as made.
        cost = value.cost.plus(body.cost).plus(_fixed(LIST_COST))
        return _NodeEstimate(cost, body.size, entry=body.entry)

    def _comprehension(self, node: syntax.Comprehension, source: _NodeEstimate) -> _NodeEstimate:
        loop = _LOOPS[node.macro]
        with self._scope(self._iterated(node, source)):
            condition = None if node.condition is None else self.of(node.condition)
            result = None if node.result is None else self.of(node.result)
            item = self._item(node) if result is None else result
        cost = (
            source.cost.plus(_fixed(loop.start))
            .plus(source.size_or_any.times(_turn(loop, condition, result)))
            .plus(_fixed(loop.end))
        )
        if node.result is None and node.macro != "filter":
            return _NodeEstimate(cost, ONE)
        entry = NOTHING.union(item.size_or_any) if node.macro in _MADE_LISTS else None
        return _NodeEstimate(cost, source.size_or_any, entry=entry)

    def _iterated(self, node: syntax.Comprehension, source: _NodeEstimate) -> dict[str, _NodeEstimate]:
        """Returns the estimates of a loop's variables."""
        is_list = node.range.type.kind is TypeKind.LIST
        key = self._step(source.origin, "@indices" if is_list else "@keys")
        value = self._step(source.origin, "@items" if is_list else "@values")
        if len(node.variables) == 2:
            first, second = node.variables
            return {first: _NodeEstimate(ONE, origin=key), second: _NodeEstimate(ONE, source.entry, value)}
        variable = _NodeEstimate(ONE, source.entry, value) if is_list else _NodeEstimate(ONE, origin=key)
        return {node.variables[0]: variable}

    def _item(self, node: syntax.Comprehension) -> _NodeEstimate:
        local = self._locals[node.variables[0]]
        return local if local.origin.size is None else local._replace(size=local.origin.size)


def _turn(loop: _LoopCost, condition: _NodeEstimate | None, result: _NodeEstimate | None) -> Bounds:
    fixed = _fixed(loop.turn)
    if loop.result is None:
        # `accumulator && condition`, of which the second part may not be reached.
        assert condition is not None
        return fixed.plus(ONE).plus(Bounds(0, condition.cost.high))
    taken = _fixed(loop.result).plus(NOTHING if result is None else result.cost)
    if condition is None:
        return fixed.plus(taken)
    return fixed.plus(condition.cost).plus(taken.union(ONE))


def _estimated(overload: Overload, arguments: list[Argument]) -> CallEstimate:
    if overload.id in _EQUALITIES and arguments[0].type.kind is TypeKind.OPAQUE:
        # Of types that are compared as quickly as numbers are, but those that are text.
        sized = _SIZED.get(arguments[0].type.name)
        return CallEstimate(ONE if sized is None else sized(arguments[1].size).scaled(STRING_FACTOR))
    return CallEstimate(ONE) if overload.estimate is None else overload.estimate(arguments)


def _argument(node: Node, found: _NodeEstimate) -> Argument:
    constant = node.value if isinstance(node, syntax.Constant) else None
    known = found.origin.type
    # Of the schema's own values the sizes of what is in them are known, too; of what an expression makes not,
    # though its type is put together from theirs.
    type_ = _unbounded(node.type) if known is None or known.kind is not node.type.kind else known
    return Argument(type_, found.size_or_any, constant)


def _unbounded(type_: Type) -> Type:
    if type_.kind is not TypeKind.LIST or type_.element.size_max is None:
        return type_
    return list_of(replace(type_.element, size_max=None), size_max=type_.size_max)


def _constant_size(value: object) -> Bounds:
    return _fixed(len(value)) if isinstance(value, str | bytes) else ONE


def _type_size(type_: Type) -> Bounds | None:
    if type_.kind is TypeKind.OPTIONAL and type_.parameters:
        return _type_size(type_.element)
    return ONE if type_.kind in _SCALARS else None


def _any_of(items: list[_NodeEstimate]) -> Bounds:
    if not items:
        return NOTHING
    sizes = [item.size_or_any for item in items]
    return Bounds(min(size.low for size in sizes), max(size.high for size in sizes))


def _union(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    return None if a is None or b is None else a.union(b)


def _sum(costs: Iterator[Bounds]) -> Bounds:
    low = high = 0
    for cost in costs:
        low, high = low + cost.low, high + cost.high
    return Bounds(min(low, UNBOUNDED), min(high, UNBOUNDED))


def _fixed(number: int) -> Bounds:
    return Bounds(number, number)
