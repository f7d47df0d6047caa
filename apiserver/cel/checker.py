"""Type-checks an expression: finds the type of each part, and resolves its names and calls.

The rules, and the texts and positions of errors, are cel-go's (checker/checker.go). Time is linear in the
length of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from apiserver.cel import syntax, types, validators
from apiserver.cel.compatibility_version import VALIDATORS, CompatibilityVersion
from apiserver.cel.functions import Overload
from apiserver.cel.name_resolution import Declaration, NameResolver
from apiserver.cel.syntax import (
    Bind,
    Call,
    Comprehension,
    Constant,
    CreateList,
    CreateMap,
    CreateMessage,
    Ident,
    InvalidExpression,
    Issue,
    Node,
    Scopes,
    Select,
    first_operand,
    with_first_operand,
)
from apiserver.cel.types import Field, Type, TypeKind
from apiserver.cel.unification import (
    DYN_OR_ERROR,
    SCALARS,
    TooComplex,
    Unifier,
    has_parameters,
    most_general,
    parameter_names,
    with_parameters,
)
from apiserver.cel.values import UInt

_CONSTANTS: Final[Mapping[type, Type]] = {
    type(None): types.NULL,
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
}
_LOGICAL: Final = frozenset({"_&&_", "_||_"})


class CheckOptions(NamedTuple):
    """The strictness of checks of an expression.

    mixed: whether literals of lists and maps may mix types everywhere, and not only in the arguments of
        `format`.

    lenient: whether nothing is an error before evaluation, as if nothing was checked.
    quoted_fields: whether fields may be selected as "a.`b-c`".
    version: the parts of the language that a new expression may use; None: all.
    """

    mixed: bool = False
    lenient: bool = False
    quoted_fields: bool = False
    version: CompatibilityVersion | None = None

    @property
    def validates(self) -> bool:
        """Whether constants and literals are validated once all types are known."""
        is_there = self.version is None or self.version.has(VALIDATORS)
        return is_there and not self.mixed and not self.lenient


# The kinds of types that may turn out to be lists or maps.
_ITERABLE: Final = DYN_OR_ERROR | {TypeKind.PARAMETER}
# More names with scalar arguments than all libraries have, so that the table never grows beyond.
_RESOLVED_MAX: Final = 4096


def check(node: Node, source: str, resolver: NameResolver, options: CheckOptions) -> Node:
    """Returns the tree with types, names and overloads filled in. Raises InvalidExpression."""
    checker = _Checker(resolver, options)
    try:
        checked = checker.check(node)
        checker.finish()
    except RecursionError:
        raise InvalidExpression(source, [Issue("max recursion depth exceeded")]) from None
    if not checker.issues and options.validates:
        checker.validate()
    if checker.issues:
        raise InvalidExpression(source, sorted(checker.issues, key=lambda issue: issue.offset or 0))
    return checked


class _Checker(Scopes[Type]):
    def __init__(self, resolver: NameResolver, options: CheckOptions) -> None:
        super().__init__()
        self._resolver = resolver
        self._functions = resolver.declarations.functions
        self._longest = max(resolver.name_parts_max.values(), default=0)
        self._options = options
        self._unifier = Unifier()
        self._open: list[Node] = []  # those whose types have free parameters
        self._candidates = validators.Candidates()
        self._in_format = 0
        self.issues: list[Issue] = []

    def finish(self) -> None:
        """Replace all type parameters by the types that they are bound to, or dyn."""
        for node in self._open:
            node.type = self._unifier.substitute(node.type, free=types.DYN)

    def validate(self) -> None:
        for node, message in validators.problems(self._candidates):
            self._report(node, message)

    # ---- the walk

    def check(self, node: Node) -> Node:
        """Check a node and set its type. Returns the node, or its replacement."""
        chain: list[Node] = []
        while (child := first_operand(node)) is not None:
            if isinstance(node, Select):
                found = self._qualified(node)
                if found is not None:
                    node = found
                    break
            elif isinstance(node, Call) and node.target is not None and self._is_namespaced(node):
                continue  # It has no target any more.
            chain.append(node)
            node = child
        else:
            _LEAVES[type(node)](self, node)
        for parent in reversed(chain):
            _INNER[type(parent)](self, with_first_operand(parent, node))
            node = parent
        return node

    def _set(self, node: Node, type_: Type) -> None:
        node.type = type_
        try:
            if self._unifier.has_free_parameters(type_):
                self._open.append(node)
        except TooComplex:
            node.type = types.ERROR
            self._report(node, "type is too complex")

    def _report(self, node: syntax.NodeBase, message: str) -> None:
        self._report_at(node.offset, message)

    def _report_at(self, offset: int, message: str) -> None:
        if len(self.issues) < syntax.ISSUES_MAX and not self._options.lenient:
            self.issues.append(Issue(message, offset))

    def _undeclared(self, node: syntax.NodeBase, name: str) -> None:
        self._report(node, f"undeclared reference to '{name}' (in container '{self._resolver.container}')")

    def _constant(self, node: Constant) -> None:
        node.type = _CONSTANTS[type(node.value)]

    # ---- names

    def _ident(self, node: Ident) -> None:
        local = self._locals.get(node.name)
        if local is not None:
            self._set(node, local)
        elif (found := self._resolver.resolve(node.name)) is not None:
            self._name(node, *found)
        else:
            node.type = types.DYN if self._options.lenient else types.ERROR
            self._undeclared(node, node.name)

    def _name(self, node: Ident, name: str, declaration: Declaration) -> None:
        type_, node.is_constant, node.value = declaration
        # A local of the same name must not hide it from later steps.
        node.name = "." + name if name in self._locals else name
        if has_parameters(type_):  # of a type's name, `list(A)`
            parameters = dict.fromkeys(parameter_names(type_), types.DYN)
            type_ = with_parameters(type_, parameters)
        node.type = type_

    def _chain(self, node: Node, parts: int) -> list[str] | None:
        """Returns the names in `a.b.c`; None for anything else, or for more than the maximum of parts."""
        found: list[str] = []
        while isinstance(node, Select) and not node.is_test and not node.is_optional:
            found.append(node.field)
            if len(found) >= parts:
                return None
            node = node.operand
        if not isinstance(node, Ident) or node.name in self._locals:
            return None
        return [node.name, *reversed(found)]

    def _qualified(self, node: Select) -> Ident | None:
        """Returns the variable or constant with a dotted name that a selection refers to; None if it is not
        one.
        """
        if not self._longest or node.is_test or node.is_optional:
            return None
        chain = self._chain(node, self._longest)
        if chain is None or chain[0].removeprefix(".") not in self._resolver.name_parts_max:
            return None
        found = self._resolver.resolve(".".join(chain))
        if found is None:
            return None
        ident = Ident(found[0], offset=node.offset)
        self._name(ident, *found)
        return ident

    def _is_namespaced(self, node: Call) -> bool:
        """Whether the call is of a function in a namespace, as `math.greatest`; if so, removes its target."""
        assert node.target is not None
        if not self._longest:
            return False
        chain = self._chain(node.target, self._longest)
        if chain is None or chain[0].removeprefix(".") not in self._resolver.name_parts_max:
            return False
        for candidate in self._resolver.candidates(".".join((*chain, node.function))):
            if candidate in self._functions:
                node.function, node.target = candidate, None
                return True
        return False

    # ---- fields

    def _select(self, node: Select) -> None:
        operand = self._unifier.substitute(node.operand.type)
        target = operand.element if operand.kind is TypeKind.OPTIONAL else operand
        result = types.DYN
        node.key = node.field
        if target.kind is TypeKind.MAP:
            result = target.value
        elif target.kind is TypeKind.OBJECT:
            found = target.fields.get(node.field)
            if found is None or not self._may_use(found):
                self._report(node, f"undefined field '{node.field}'")
                result = types.DYN if self._options.lenient else types.ERROR
            else:
                node.key, result = found.key, found.type
        elif target.kind is TypeKind.PARAMETER:
            self._unifier.assignable(types.DYN, target)
        elif target.kind not in DYN_OR_ERROR:
            self._report(node, f"type '{target}' does not support field selection")
        if node.is_optional or (operand.kind is TypeKind.OPTIONAL):
            result = types.optional_of(result)
        self._set(node, types.BOOL if node.is_test else self._unifier.substitute(result))

    def _may_use(self, field: Field) -> bool:
        version = self._options.version
        return version is None or version.has(field.since, field.gate)

    # ---- calls

    def _call(self, node: Call) -> None:
        is_format = node.target is not None and node.function == "format"
        self._in_format += is_format
        if node.target is None and node.args:
            first = node.args[0]
            # The walk has checked the first; a call without a target is never asked again for it.
            node.args = (first, *map(self.check, node.args[1:]))
        else:
            node.args = tuple(map(self.check, node.args))
        self._in_format -= is_format
        if is_format:
            self._candidates.formats.append(node)
        for name in self._resolver.candidates(node.function):
            overloads = self._functions.get(name)
            if overloads is not None:
                break
        else:
            node.type = types.DYN if self._options.lenient else types.ERROR
            self._undeclared(node, node.function)
            return
        if node.target is None:
            node.function = name
        self._resolve(node, overloads)
        if node.function in validators.CHECKED_FUNCTIONS and node.args and isinstance(node.args[0], Constant):
            self._candidates.calls.append(node)

    def _resolve(self, node: Call, overloads: tuple[Overload, ...]) -> None:
        if node.function in _LOGICAL and node.target is None:
            node.overloads = overloads
            node.type = types.BOOL if self._are_bools(node.args) or self._options.lenient else types.ERROR
            return
        is_method = node.target is not None
        args = node.args if node.target is None else (node.target, *node.args)
        given = [arg.type for arg in args]
        found = self._resolved(node.function, overloads, given, is_method=is_method)
        if found is not None:
            node.overloads = found[0]
            self._set(node, found[1])
            return
        if self._options.lenient:
            node.overloads = tuple(
                each for each in overloads if each.is_method == is_method and len(each.args) == len(args)
            )
            node.type = types.DYN
            return
        shown = [str(self._unifier.substitute(type_, free=types.DYN)) for type_ in given]
        receiver = f"{shown.pop(0)}." if is_method else ""
        node.type = types.ERROR
        self._report(
            node,
            f"found no matching overload for '{node.function}' applied to '{receiver}({', '.join(shown)})'",
        )

    def _are_bools(self, args: Sequence[Node]) -> bool:
        valid = True
        for arg in args:
            if arg.type is not types.BOOL and not self._unifier.assignable(arg.type, types.BOOL):
                shown = self._unifier.substitute(arg.type, free=types.DYN)
                self._report(arg, f"expected type '{types.BOOL}' but found '{shown}'")
                valid = False
        return valid

    def _resolved(
        self, function: str, overloads: Sequence[Overload], given: Sequence[Type], *, is_method: bool
    ) -> tuple[tuple[Overload, ...], Type] | None:
        """Returns the overloads that fit, and the type of their results; None if none fit."""
        if not all(type_.kind in SCALARS for type_ in given):
            return self._matching(overloads, given, is_method=is_method)
        key = (function, is_method, tuple(type_.kind for type_ in given))
        known = self._resolver.declarations.resolved
        if key in known:
            return known[key]
        found = self._matching(overloads, given, is_method=is_method)
        is_final = found is None or not has_parameters(found[1])
        if is_final and len(known) < _RESOLVED_MAX:
            known[key] = found
        return found

    def _matching(
        self, overloads: Sequence[Overload], given: Sequence[Type], *, is_method: bool
    ) -> tuple[tuple[Overload, ...], Type] | None:
        matching: list[Overload] = []
        result: Type | None = None
        for overload in overloads:
            if overload.is_method != is_method or len(overload.args) != len(given):
                continue
            wanted: Sequence[Type] = overload.args
            its_result = overload.result
            generic = self._resolver.declarations.parameters[overload]
            if generic:
                names = {name: self._unifier.fresh() for name in generic}
                wanted = [with_parameters(type_, names) for type_ in wanted]
                its_result = with_parameters(its_result, names)
            if not self._unifier.all_assignable(given, wanted):
                continue
            matching.append(overload)
            its_result = self._unifier.substitute(its_result)
            if result is None:
                result = its_result
            elif result.kind is not TypeKind.DYN and result != its_result:
                result = types.DYN
        return None if result is None else (tuple(matching), result)

    # ---- literals

    def _joined(self, before: Type | None, type_: Type) -> Type:
        """Returns the type of items of two types. The validators refuse literals that must not mix them."""
        if before is None or before is type_:
            return type_
        return most_general(before, type_) if self._unifier.assignable(before, type_) else types.DYN

    def _unwrapped(self, node: Node) -> Type:
        """Returns the type of the value in an optional entry."""
        type_ = self._unifier.substitute(node.type)
        if type_.kind is TypeKind.OPTIONAL:
            return type_.element
        if type_.kind is not TypeKind.DYN:
            self._report(node, f"expected type '{types.optional_of(type_)}' but found '{type_}'")
        return type_

    def _list(self, node: CreateList) -> None:
        element: Type | None = None
        items = []
        for index, item in enumerate(node.items):
            item = self.check(item)
            items.append(item)
            type_ = self._unwrapped(item) if index in node.optional else item.type
            element = self._joined(element, type_)
        node.items = tuple(items)
        if not self._in_format:
            self._candidates.literals.append(node)
        self._set(node, types.list_of(self._unifier.fresh() if element is None else element))

    def _map(self, node: CreateMap) -> None:
        key_type: Type | None = None
        value_type: Type | None = None
        for entry in node.entries:
            assert not isinstance(entry.key, str)
            entry.key = key = self.check(entry.key)
            key_type = self._joined(key_type, key.type)
            entry.value = value = self.check(entry.value)
            type_ = self._unwrapped(value) if entry.is_optional else value.type
            value_type = self._joined(value_type, type_)
        if not self._in_format:
            self._candidates.literals.append(node)
        if key_type is None or value_type is None:
            key_type, value_type = self._unifier.fresh(), self._unifier.fresh()
        self._set(node, types.map_of(key_type, value_type))

    def _message(self, node: CreateMessage) -> None:
        found = self._resolver.resolve_message(node.name)
        if found is None:
            self._undeclared(node, node.name)
            node.type = types.ERROR
            return
        node.name, type_ = found[0], found[1].type
        result = types.ERROR
        if type_.kind is not TypeKind.TYPE:
            self._report(node, f"'{type_}' is not a type")
        elif not type_.parameters or type_.element.kind is not TypeKind.OBJECT:
            shown = type_.element if type_.parameters else type_
            self._report(node, f"'{shown}' is not a message type")
        else:
            result = type_.element
        node.type = result
        for entry in node.entries:
            entry.value = value = self.check(entry.value)
            wanted = types.ERROR
            if result.kind is TypeKind.OBJECT:
                its_field = result.fields.get(str(entry.key))
                if its_field is None:
                    self._report_at(entry.offset, f"undefined field '{entry.key}'")
                else:
                    wanted = its_field.type
            given = self._unwrapped(value) if entry.is_optional else value.type
            if not self._unifier.assignable(wanted, given):
                self._report_at(
                    entry.offset,
                    f"expected type of field '{entry.key}' is '{wanted}' but provided type is '{given}'",
                )

    # ---- loops and bindings

    def _binding(self, node: Bind) -> None:
        node.value = self.check(node.value)
        self._bind(node)

    def _bind(self, node: Bind) -> None:
        # All parameters at once: what stands for what must not grow unmeasured from binding to binding.
        self._set(node.value, self._unifier.substitute(node.value.type))
        with self._scope({node.name: node.value.type}):
            node.body = self.check(node.body)
        self._set(node, node.body.type)

    def _comprehension(self, node: Comprehension) -> None:
        range_type = self._unifier.substitute(node.range.type)
        key, value = types.DYN, types.DYN
        if range_type.kind is TypeKind.LIST:
            key, value = types.INT, range_type.element
        elif range_type.kind is TypeKind.MAP:
            key, value = range_type.parameters
        elif range_type.kind in _ITERABLE and range_type.name != types.ANY_NAME:
            self._unifier.assignable(types.DYN, range_type)
        else:
            self._report(
                node.range,
                f"expression of type '{range_type}' cannot be range of a comprehension"
                " (must be list, map, or dynamic)",
            )
            key = value = types.ERROR
        if len(node.variables) == 1:
            variables = {node.variables[0]: key if range_type.kind is TypeKind.MAP else value}
        else:
            variables = dict(zip(node.variables, (key, value), strict=True))
        with self._scope(variables):
            if node.condition is not None:
                node.condition = self.check(node.condition)
            if node.result is not None:
                node.result = self.check(node.result)
        self._set(node, self._unifier.substitute(self._loop_type(node, variables)))

    def _loop_type(self, node: Comprehension, variables: Mapping[str, Type]) -> Type:
        first, *_ = variables.values()
        if node.macro in ("all", "exists"):
            assert node.condition is not None
            return types.BOOL if self._are_bools((node.condition,)) or self._options.lenient else types.ERROR
        if node.macro == "existsOne":
            return self._conditional_type(node, types.INT, types.BOOL)
        if node.macro == "filter":
            return self._conditional_type(node, types.list_of(first))
        assert node.result is not None
        if node.macro == "transformMap":
            return self._conditional_type(node, types.map_of(first, node.result.type))
        if node.macro == "transformMapEntry":
            entry = self._unifier.substitute(node.result.type)
            if entry.kind is TypeKind.MAP:
                return self._conditional_type(node, entry)
            if entry.kind not in DYN_OR_ERROR:
                self._report(
                    node,
                    f"found no matching overload for 'cel.@mapInsert' applied to '(map(dyn, dyn), {entry})'",
                )
            return types.MAP_DYN
        return self._conditional_type(node, types.list_of(node.result.type))

    def _conditional_type(self, node: Comprehension, made: Type, result: Type | None = None) -> Type:
        """Returns the loop's type if the condition is a bool; cel-go checks `condition ? made : made`."""
        if node.condition is None or self._unifier.assignable(node.condition.type, types.BOOL):
            return result or made
        if self._options.lenient:
            return result or made
        shown = ", ".join(
            str(self._unifier.substitute(type_, free=types.DYN))
            for type_ in (node.condition.type, made, made)
        )
        self._report(node, f"found no matching overload for '_?_:_' applied to '({shown})'")
        return types.ERROR


# Methods by class of node: for nodes that end a chain, and for nodes whose first operand has been checked.
# These are tables, since a method that dispatches would add a third to the depth of the stack.
_LEAVES: Final[Mapping[type, Callable[[_Checker, Any], None]]] = {
    Constant: _Checker._constant,
    Ident: _Checker._ident,
    CreateList: _Checker._list,
    CreateMap: _Checker._map,
    CreateMessage: _Checker._message,
    Bind: _Checker._binding,
    Call: _Checker._call,
}
_INNER: Final[Mapping[type, Callable[[_Checker, Any], None]]] = {
    Select: _Checker._select,
    Call: _Checker._call,
    Comprehension: _Checker._comprehension,
    Bind: _Checker._bind,
}
