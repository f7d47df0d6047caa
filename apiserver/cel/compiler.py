"""Compiles a checked tree to closures over a frame, which count their costs.

`evaluators` has the evaluation of each part. Constant costs of parts are added up here and charged once, at
the start of the expression, branch or iteration that contains them. Only costs that depend on values are
charged separately.

Source of the costs: cel-go interpreter/runtimecost.go. A name, a field and an index cost one each, but a name
that is only a branch of `?:` or an index costs nothing itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from apiserver.cel.costs import (
    LIST_ITEMS_PER_COST,
    MAP_ENTRIES_PER_COST,
    PER_CALL_LIMIT,
    literal_cost,
    regex_search,
)
from apiserver.cel.evaluators import bindings, calls, comprehensions, equality, literals, logic, selections
from apiserver.cel.evaluators.frames import ABSENT, BUDGET, Evaluator, Frame, charged, in_steps
from apiserver.cel.functions import LIST_COST, MAP_COST, MESSAGE_COST
from apiserver.cel.syntax import (
    MACRO_TARGET,
    Bind,
    Call,
    Comprehension,
    Constant,
    CreateList,
    CreateMap,
    CreateMessage,
    Ident,
    Node,
    Scopes,
    Select,
    first_operand,
)
from apiserver.cel.types import Type, TypeKind
from apiserver.cel.values import NO_SUCH_OVERLOAD, CostExceeded, EvaluationError
from apiserver.golang.regex import InvalidPattern, Regex, compile_pattern

# A chain of calls is cut into pieces of so many, which are evaluated one after the other and not within.
CHAIN_MAX: Final = 32
# Functions of regular expressions, whose second argument is the pattern.
_WITH_PATTERNS: Final = frozenset({"matches", "find", "findAll"})
# In the text of an expression: it may compile patterns, each of which can take a quarter of a second.
PATTERN_FUNCTIONS: Final = re.compile("|".join(sorted(_WITH_PATTERNS)))
# Methods whose argument is evaluated only if what they are called on has no value.
_ALTERNATIVES: Final = frozenset({"optional_or_optional", "optional_orValue_value"})

# What Python raises for values that are not of their declared types. Operations do not check that themselves.
_MISTYPED: Final = (TypeError, AttributeError, LookupError, ValueError, ArithmeticError)


class ProgramError(Exception):
    """An expression that passes the checks but cannot be evaluated; the message is for the client."""


class Result(NamedTuple):
    value: Any
    cost: int


class Program:
    """A compiled expression, which can be evaluated any number of times, also in several threads at once."""

    __slots__ = ("_cost", "_evaluate", "_frame", "_names", "makes_patterns")

    def __init__(
        self,
        evaluate: Evaluator,
        cost: int,
        names: Mapping[str, int],
        size: int,
        *,
        makes_patterns: bool = False,
    ) -> None:
        """makes_patterns: whether an evaluation may compile regular expressions, which are not constant."""
        self._evaluate, self._cost, self.makes_patterns = evaluate, cost, makes_patterns
        self._names = tuple(names.items())
        self._frame: Frame = [ABSENT] * size

    @property
    def names(self) -> frozenset[str]:
        """The variables that the expression names."""
        return frozenset(name for name, _ in self._names)

    def __call__(
        self,
        variables: Mapping[str, Any],
        budget: int = PER_CALL_LIMIT,
        frames: list[Frame] | None = None,
    ) -> Result:
        """Evaluate the expression.

        variables: those that the expression names; needing a missing one is an EvaluationError.
        frames: where the frame of this evaluation is appended, so that `variables` can charge their own costs
        to it.
        Raises CostExceeded, and EvaluationError, also for a value that is not of its declared type. Other
        errors may not matter (`error || true`); a value of a wrong type always does.
        """
        frame = self._frame.copy()
        frame[BUDGET] = budget - self._cost
        if frames is not None:
            frames.append(frame)
        for name, slot in self._names:
            frame[slot] = variables.get(name, ABSENT)
        try:
            value = self._evaluate(frame)
        except EvaluationError as error:
            error.cost = _spent(frame, budget)
            raise
        except _MISTYPED as error:
            raise _failed(NO_SUCH_OVERLOAD, _spent(frame, budget)) from error
        except RecursionError:
            raise _failed("values are nested too deeply", _spent(frame, budget)) from None
        left: int = frame[BUDGET]
        if left < 0:
            raise CostExceeded
        # As `Result(…)`, which takes a quarter of the time of a short expression.
        return tuple.__new__(Result, (value, budget - left))


def _spent(frame: Frame, budget: int) -> int:
    """Returns the part of a budget that was spent. Raises CostExceeded if it was exceeded."""
    left: int = frame[BUDGET]
    if left < 0:
        raise CostExceeded
    return budget - left


def _failed(message: str, cost: int) -> EvaluationError:
    error = EvaluationError(message)
    error.cost = cost
    return error


class Code(NamedTuple):
    """The evaluator of a part of a tree, and its costs.

    cost: its constant cost, which the caller charges before the evaluation.
    attribute_cost: the part of the cost for a name or a selection.
    is_attribute: whether it is a name or a selection, so that selecting from it costs only that selection.
    path: for `self.a.b` the evaluator of the variable, its slot, and the fields; else empty.
    constant: the value in a tuple of one, if it is known; else empty.
    """

    evaluate: Evaluator
    cost: int = 0
    attribute_cost: int = 0
    is_attribute: bool = False
    path: tuple[Any, ...] = ()
    constant: tuple[Any, ...] = ()

    @property
    def bare_cost(self) -> int:
        return self.cost - self.attribute_cost


def compile_tree(node: Node) -> Program:
    """Returns the program of a checked tree. Raises ProgramError."""
    compiler = _Compiler()
    try:
        code = compiler.compile(node)
    except RecursionError:
        raise ProgramError("max recursion depth exceeded") from None
    return Program(
        code.evaluate, code.cost, compiler.globals, compiler.size, makes_patterns=compiler.makes_patterns
    )


class _Compiler(Scopes[Code]):
    def __init__(self) -> None:
        super().__init__()
        self.globals: dict[str, int] = {}
        self.size = 1
        self.makes_patterns = False

    def _slot(self) -> int:
        self.size += 1
        return self.size - 1

    def compile(self, node: Node) -> Code:
        chain: list[Node] = []
        while (child := self._first(node)) is not None:
            chain.append(node)
            node = child
        code = _LEAVES[type(node)](self, node)
        steps: list[tuple[int, Evaluator]] = []
        for position, parent in enumerate(reversed(chain)):
            if position and position % CHAIN_MAX == 0:
                slot = self._slot()
                steps.append((slot, code.evaluate))
                code = code._replace(evaluate=bindings.read(slot), path=())
            code = _INNER[type(parent)](self, parent, code)
        return code._replace(evaluate=in_steps(steps, code.evaluate), path=()) if steps else code

    def _first(self, node: Node) -> Node | None:
        """Returns the operand that is always evaluated first, if there is one."""
        if isinstance(node, Call) and node.target is None and node.function in ("_&&_", "_||_", "_?_:_"):
            return None
        return first_operand(node)

    def _leaf_call(self, node: Call) -> Code:
        if node.target is None and node.function in ("_&&_", "_||_"):
            return self._logical(node)
        if node.target is None and node.function == "_?_:_":
            return self._choice(node, self.compile(node.args[0]))
        return self._call(node, list(map(self.compile, node.args)))

    def _inner_call(self, node: Call, first: Code) -> Code:
        if any(each.id in _ALTERNATIVES for each in node.overloads):
            return self._alternative(node, first)
        rest = node.args if node.target is not None else node.args[1:]
        return self._call(node, [first, *map(self.compile, rest)])

    # ---- names and fields

    def _constant(self, node: Constant) -> Code:
        return _constant(node.value)

    def _ident(self, node: Ident) -> Code:
        if node.is_constant:
            return _constant(node.value)
        local = self._locals.get(node.name)
        if local is not None:
            return local
        name = node.name.removeprefix(".")
        slot = self.globals.get(name)
        if slot is None:
            slot = self.globals[name] = self._slot()
        return _variable(bindings.read_global(slot, name), slot)

    def _select(self, node: Select, operand: Code) -> Code:
        if node.is_test:
            evaluate = selections.has_field(operand.evaluate, node.key)
            return Code(evaluate, operand.bare_cost + 1, 0, is_attribute=True)
        attribute_cost, cost = _selecting(operand)
        is_plain = not node.is_optional and node.key == node.field
        if operand.path and is_plain:
            path = (*operand.path, node.key)
            return Code(selections.read_path(path), cost, attribute_cost, is_attribute=True, path=path)
        evaluate = selections.select(operand.evaluate, node.key, node.field, is_optional=node.is_optional)
        return Code(evaluate, cost, attribute_cost, is_attribute=True)

    def _index(self, operand: Code, index: Code, *, is_optional: bool, of: Type) -> Code:
        attribute_cost, cost = _selecting(operand)
        cost += index.bare_cost if index.is_attribute else index.cost
        evaluate = selections.index(operand.evaluate, index.evaluate, is_optional=is_optional, of=of)
        return Code(evaluate, cost, attribute_cost, is_attribute=True)

    # ---- calls

    def _logical(self, node: Call) -> Code:
        """Compile all terms of a chain of `&&` or `||` at once, however it is nested."""
        terms: list[Node] = []
        waiting: list[Node] = [node]
        while waiting:
            each = waiting.pop()
            if isinstance(each, Call) and each.function == node.function and each.target is None:
                waiting.extend(reversed(each.args))
            else:
                terms.append(each)
        codes = list(map(self.compile, terms))
        are_bools = [term.type.kind is TypeKind.BOOL for term in terms]
        evaluators = [
            logic.boolean(code.evaluate, is_bool=is_bool)
            for code, is_bool in zip(codes, are_bools, strict=True)
        ]
        later = [
            charged(evaluate, code.cost) for evaluate, code in zip(evaluators[1:], codes[1:], strict=True)
        ]
        combine = logic.conjunction if node.function == "_&&_" else logic.disjunction
        return Code(combine([evaluators[0], *later]), codes[0].cost)

    def _choice(self, node: Call, condition: Code) -> Code:
        then, otherwise = map(self.compile, node.args[1:])
        evaluate = logic.boolean(condition.evaluate, is_bool=node.args[0].type.kind is TypeKind.BOOL)
        always = min(then.bare_cost, otherwise.bare_cost)
        evaluate = logic.conditional(
            evaluate,
            charged(then.evaluate, then.bare_cost - always),
            charged(otherwise.evaluate, otherwise.bare_cost - always),
        )
        return Code(evaluate, condition.cost + always, 0, is_attribute=True)

    def _alternative(self, node: Call, optional: Code) -> Code:
        other = self.compile(node.args[0])
        evaluate = logic.alternative(
            optional.evaluate, charged(other.evaluate, other.cost), is_value=node.function == "orValue"
        )
        return Code(evaluate, optional.cost)

    def _call(self, node: Call, args: Sequence[Code]) -> Code:
        given = [arg.type for arg in ((node.target,) if node.target is not None else ()) + node.args]
        match node.function:
            case "_[_]":
                return self._index(*args, is_optional=False, of=given[0])
            case "_[?_]":
                return self._index(*args, is_optional=True, of=given[0])
            case "_==_" | "_!=_":
                evaluate, call_cost = equality.comparison(
                    args[0].evaluate, args[1].evaluate, *given, is_equal=node.function == "_==_"
                )
                return Code(evaluate, args[0].cost + args[1].cost + call_cost)
            case "@in":
                return self._membership(args[0], args[1], *given)
        cost = sum(arg.cost for arg in args)
        self.makes_patterns |= node.function in _WITH_PATTERNS and _pattern(node, args) is None
        if len(node.overloads) == 1 and all(map(_always_matches, given, node.overloads[0].args)):
            code = self._static_call(node, args, cost)
        else:
            name = node.function if node.function[0].isalpha() else ""
            code = Code(calls.dispatched(name, node.overloads, [arg.evaluate for arg in args]), cost)
        is_converted = node.function in _CONVERSIONS and len(args) == 1 and args[0].constant
        return _evaluated(code.evaluate) if is_converted else code

    def _membership(self, item: Code, container: Code, item_type: Type, container_type: Type) -> Code:
        if container.constant and container_type.kind is TypeKind.LIST:
            (items,) = container.constant
            if not items:
                return _constant(False)
            if all(map(equality.is_plain, items)):
                return Code(equality.membership_of_constants(item.evaluate, item_type, items), item.cost)
        evaluate, call_cost = equality.membership(
            item.evaluate, container.evaluate, item_type, container_type
        )
        return Code(evaluate, item.cost + container.cost + call_cost)

    def _static_call(self, node: Call, args: Sequence[Code], cost: int) -> Code:
        overload = node.overloads[0]
        pattern = _pattern(node, args)
        evaluators = [arg.evaluate for arg in args]
        if pattern is not None:
            try:
                regex = compile_pattern(pattern)
            except InvalidPattern as error:
                raise ProgramError(str(error)) from None
            if overload.id == "matches_string":
                return Code(calls.search(evaluators[0], regex.search, len(pattern)), cost)
            regex.prepare_find()
            return Code(calls.call_with_cost(_finding(overload.call, regex), regex_search, evaluators), cost)
        if overload.call_cost is not None:
            return Code(calls.call_with_cost(overload.call, overload.call_cost, evaluators), cost)
        return Code(
            calls.call(overload.call, evaluators, args[1].constant if len(args) == 2 else ()), cost + 1
        )

    # ---- literals

    def _list(self, node: CreateList) -> Code:
        codes = list(map(self.compile, node.items))
        if not node.optional and all(code.constant for code in codes):
            return _constant([code.constant[0] for code in codes])
        evaluate = literals.make_list([code.evaluate for code in codes], node.optional)
        cost = LIST_COST + literal_cost(sum(not code.cost for code in codes), LIST_ITEMS_PER_COST)
        return Code(evaluate, cost + sum(code.cost for code in codes))

    def _map(self, node: CreateMap) -> Code:
        cost, free, entries, are_constant = MAP_COST, 0, [], True
        for entry in node.entries:
            assert not isinstance(entry.key, str)
            key, value = self.compile(entry.key), self.compile(entry.value)
            cost += key.cost + value.cost
            free += not key.cost + value.cost
            are_constant = are_constant and bool(key.constant and value.constant) and not entry.is_optional
            entries.append((key.evaluate, value.evaluate, entry.is_optional))
        evaluate = literals.make_map(entries)
        if are_constant:
            # An error is raised when the map is evaluated.
            with suppress(EvaluationError):
                return _constant(evaluate([]))
        return Code(evaluate, cost + literal_cost(free, MAP_ENTRIES_PER_COST))

    def _message(self, node: CreateMessage) -> Code:
        if node.type.kind is not TypeKind.OBJECT:  # of what was not checked
            raise ProgramError(f"unknown type: {node.name}")
        cost, entries = MESSAGE_COST, []
        for entry in node.entries:
            value = self.compile(entry.value)
            cost += value.cost
            key = node.type.fields[str(entry.key)].key
            entries.append((key, value.evaluate, entry.is_optional))
        return Code(literals.make_message(node.type, entries), cost)

    # ---- bindings and loops

    def _bind(self, node: Bind) -> Code:
        value, slot = self.compile(node.value), self._slot()
        read = bindings.read_lazily(slot, charged(value.evaluate, value.cost))
        with self._scope({node.name: Code(read, 1, 1, is_attribute=True)}):
            body = self.compile(node.body)
        return Code(bindings.bound(slot, body.evaluate), body.cost)

    def _bound_at_once(self, node: Bind, value: Code) -> Code:
        """Compile `hasValue(@target) ? … value(@target) … : …`; cel-go evaluates the whole target twice."""
        slot, choice = self._slot(), node.body
        assert isinstance(choice, Call)
        self._slot()
        with self._scope({MACRO_TARGET: Code(bindings.read(slot))}):
            condition = self.compile(choice.args[0])
        with self._scope({MACRO_TARGET: Code(bindings.read_again(slot))}):
            body = self._choice(choice, condition)
        return Code(
            bindings.bound_at_once(slot, value.evaluate, value.cost, body.evaluate), value.cost + body.cost
        )

    def _comprehension(self, node: Comprehension, range_: Code) -> Code:
        slots = [self._slot() for _ in node.variables]
        variables = {
            name: _variable(bindings.read(slot), slot)
            for name, slot in zip(node.variables, slots, strict=True)
        }
        condition = result = None
        with self._scope(variables):
            if node.condition is not None:
                code = self.compile(node.condition)
                is_bool = node.condition.type.kind is TypeKind.BOOL
                condition = comprehensions.LoopPart(logic.boolean(code.evaluate, is_bool=is_bool), code.cost)
            if node.result is not None:
                code = self.compile(node.result)
                result = comprehensions.LoopPart(code.evaluate, code.cost, bool(code.constant))
        iteration = comprehensions.iteration(range_.evaluate, slots, of=node.range.type)
        evaluate, cost = comprehensions.LOOPS[node.macro](iteration, condition, result)
        return Code(evaluate, range_.cost + cost)


# Tables, as the checker has.
_LEAVES: Final[Mapping[type, Callable[[_Compiler, Any], Code]]] = {
    Constant: _Compiler._constant,
    Ident: _Compiler._ident,
    CreateList: _Compiler._list,
    CreateMap: _Compiler._map,
    CreateMessage: _Compiler._message,
    Bind: _Compiler._bind,
    Call: _Compiler._leaf_call,
}
_INNER: Final[Mapping[type, Callable[[_Compiler, Any, Code], Code]]] = {
    Select: _Compiler._select,
    Call: _Compiler._inner_call,
    Comprehension: _Compiler._comprehension,
    Bind: _Compiler._bound_at_once,
}


def _constant(value: Any) -> Code:
    return Code(lambda frame: value, constant=(value,))


# Functions whose calls with a constant are evaluated at compile time, as cel-go does; others are not.
_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)


def _evaluated(evaluate: Evaluator) -> Code:
    """Evaluate a node at compile time. Raises ProgramError."""
    try:
        return _constant(evaluate([PER_CALL_LIMIT]))
    except EvaluationError as error:
        raise ProgramError(str(error)) from None


def _variable(evaluate: Evaluator, slot: int) -> Code:
    return Code(evaluate, 1, 1, is_attribute=True, path=(evaluate, slot))


def _selecting(operand: Code) -> tuple[int, int]:
    """Returns the cost of a selection from an operand: of the selection alone, and with the operand."""
    return (operand.attribute_cost, operand.cost + 1) if operand.is_attribute else (1, operand.cost + 2)


_ANY: Final = frozenset({TypeKind.DYN, TypeKind.PARAMETER})


def _always_matches(given: Type, wanted: Type) -> bool:
    """Whether an argument of the given type can only be a value of the wanted type."""
    if wanted.kind in _ANY:
        return True
    if given.kind is not wanted.kind or given.name != wanted.name:
        return False
    return all(
        inner.kind in _ANY or its.kind is inner.kind
        for its, inner in zip(given.parameters, wanted.parameters, strict=False)
    )


def _finding(call: Callable[..., Any], regex: Regex) -> Callable[..., Any]:
    """Returns a call with its constant pattern, compiled, in place of the text."""
    return lambda text, _, *limit: call(text, regex, *limit)


def _pattern(node: Call, args: Sequence[Code]) -> str | None:
    """Returns a constant pattern, which is compiled before any evaluation; None if it is not constant."""
    if node.function not in _WITH_PATTERNS or len(args) < 2 or not args[1].constant:
        return None
    pattern = args[1].constant[0]
    return pattern if isinstance(pattern, str) else None
