"""Expressions that select devices: their variables, and their validation.

The variable `device` has the name of its driver, and attributes and capacities by their domains and then by
their identifiers: `device.attributes["gpu.example.com"].model == "a"`. Its sizes are bounded, so the
worst-case cost of an expression is known.
Source: k8s.io/dynamic-resource-allocation, cel/compile.go; validateCELExpression of
pkg/apis/resource/validation (release 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.catalogue.admissionregistration.expressions import too_many_expressions
from apiserver.cel import types
from apiserver.cel.compatibility_version import (
    CONSUMABLE_CAPACITY_GATE,
    LIST_ATTRIBUTES_GATE,
    CompatibilityVersion,
)
from apiserver.cel.compiler import PATTERN_FUNCTIONS, ProgramError
from apiserver.cel.cost_estimate import estimate
from apiserver.cel.kubernetes_environments import kubernetes_environment
from apiserver.cel.library.comprehensions import BINDINGS
from apiserver.cel.library.device_attributes import DEVICE_ATTRIBUTES
from apiserver.cel.library.quantity import QUANTITY
from apiserver.cel.syntax import InvalidExpression
from apiserver.cel.types import BOOL, Field, Type, TypeKind
from apiserver.load.size_class import TakesLong
from apiserver.meta.field_errors import Errors, FieldError, forbidden, invalid
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import ExpressionRules, Findings

if TYPE_CHECKING:
    from apiserver.cel.environment import Environment

EXPRESSION_BYTES_MAX: Final = 10 * 1024
_COST_MAX: Final = 1_000_000
_ENTRIES_MAX: Final = 32
# Claims of one kind of workload have the same expressions.
_CHECKED_MAX: Final = 128
# Of so many the check takes some milliseconds: 5 to 25 microseconds for each.
_CHARACTERS_ON_LOOP_MAX: Final = 512

# A text of at most so many characters, a number, a version, or true or false. With the gate of lists, a list
# of fewer of them, too; then expressions may iterate over it.
_ATTRIBUTE: Final = replace(types.ANY, size_max=64)
_LIST_ATTRIBUTE: Final = replace(types.DYN, size_max=64)
_DOMAIN: Final = Type(TypeKind.STRING, size_max=63)
_IDENTIFIER: Final = Type(TypeKind.STRING, size_max=32)


class _Attributes(Mapping[str, Field]):
    """The fields by which an expression selects attributes: `.model` is `["model"]`."""

    def __init__(self, type_: Type) -> None:
        self._type = type_

    def __getitem__(self, name: str) -> Field:
        return Field(name, self._type)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_CAPACITIES: Final = types.map_of(_IDENTIFIER, QUANTITY, size_max=_ENTRIES_MAX)


@lru_cache(2)
def device_type(*, has_lists: bool) -> Type:
    """Returns the type of `device`. has_lists: whether attributes may be lists."""
    attribute = _LIST_ATTRIBUTE if has_lists else _ATTRIBUTE
    attributes = Type(
        TypeKind.MAP,
        parameters=(_IDENTIFIER, attribute),
        fields=_Attributes(attribute),
        size_max=_ENTRIES_MAX,
    )
    fields = {
        "driver": _DOMAIN,
        "attributes": types.map_of(_DOMAIN, attributes, size_max=_ENTRIES_MAX),
        "capacity": types.map_of(_DOMAIN, _CAPACITIES, size_max=_ENTRIES_MAX),
        # Kubernetes' own tests of costs have it count as of this size.
        "allowMultipleAllocations": replace(BOOL, size_max=1),
    }
    gates = {"allowMultipleAllocations": CONSUMABLE_CAPACITY_GATE}
    return types.object_of(
        "kubernetes.DRADevice",
        {name: Field(name, type_, gate=gates.get(name, "")) for name, type_ in fields.items()},
    )


@lru_cache(2)
def environment(*, has_lists: bool) -> Environment:
    """Returns the environment of the expressions. has_lists: whether attributes may be lists."""
    return kubernetes_environment({"device": device_type(has_lists=has_lists)}, (BINDINGS, DEVICE_ATTRIBUTES))


class Selector(NamedTuple):
    """An expression, and the field that contains it."""

    path: str
    expression: str


def selector_rules(
    selectors_of: Callable[[Document, Document | None], Iterable[Selector]],
    path: str,
    compatibility: CompatibilityVersion,
) -> ExpressionRules:
    """Returns the check of selector expressions of a type, which runs in a thread if it takes long.

    selectors_of: (new, old, None for a new object): returns the expressions to check, all of them new.
    path: that of their common parent. compatibility: the version that limits them.
    """

    def check(
        new: Document, old: Document | None, errors: Sequence[FieldError], is_bounded: bool
    ) -> Findings:
        selectors = list(selectors_of(new, old))
        texts = [each.expression for each in selectors]
        # The first one imports the libraries of CEL, which takes 40 ms.
        is_first = bool(texts) and not environment.cache_info().currsize
        if is_bounded and (is_first or _takes_long(texts)):
            raise TakesLong
        found = too_many_expressions(path, texts, ())
        if not found:
            found = [error for each in selectors for error in validate_selector(each, compatibility)]
        return Findings([*errors, *found])

    return check


def _takes_long(texts: Sequence[str]) -> bool:
    return sum(map(len, texts)) > _CHARACTERS_ON_LOOP_MAX or any(map(PATTERN_FUNCTIONS.search, texts))


def validate_selector(selector: Selector, compatibility: CompatibilityVersion) -> Errors:
    """Checks an expression, except for its length."""
    return [replace(error, field=selector.path) for error in _errors(selector.expression, compatibility)]


@lru_cache(_CHECKED_MAX)
def _errors(expression: str, compatibility: CompatibilityVersion) -> tuple[FieldError, ...]:
    """Returns the errors in an expression, without their paths."""
    has_lists = LIST_ATTRIBUTES_GATE in compatibility.gates
    used = environment(has_lists=has_lists)
    try:
        checked = used.check(expression, compatibility)
    except InvalidExpression as error:
        return (invalid("", expression, f"compilation failed: {error}"),)
    if checked.type not in (BOOL, types.ANY) and not (has_lists and checked.type == types.DYN):
        text = f"must evaluate to bool or the unknown type, not {checked.type}"
        return (invalid("", expression, text),)
    try:
        used.program(checked)
    except ProgramError as error:
        text = f"Internal error: program instantiation failed: {error}"
        return (FieldError("", "InternalError", text),)
    if estimate(checked.node, device_type(has_lists=has_lists)).high > _COST_MAX:
        return (forbidden("", "too complex, exceeds cost limit"),)
    return ()
