"""Match conditions: expressions that select the requests sent to a webhook. Pure.

All must be true. A false one outweighs errors of others.
Source: k8s.io/apiserver, pkg/authorization/cel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.cel import types
from apiserver.cel.compiler import Program, ProgramError
from apiserver.cel.costs import PER_CALL_LIMIT
from apiserver.cel.kubernetes_environments import kubernetes_environment
from apiserver.cel.syntax import InvalidExpression
from apiserver.cel.types import BOOL, STRING, Field, Type
from apiserver.cel.values import CostExceeded, EvaluationError
from apiserver.golang.quoting import aggregate
from apiserver.load.size_class import TakesLong
from apiserver.meta.vocabulary import Document

if TYPE_CHECKING:
    from apiserver.cel.environment import Environment

CONDITIONS_MAX: Final = 64
# What all conditions together may cost on the event loop: some milliseconds.
COST_ON_LOOP_MAX: Final = 20_000
# And beside it. Kubernetes has no bound, and waits as long as the request may take.
COST_MAX: Final = 4 * PER_CALL_LIMIT


class InvalidCondition(ValueError):
    """An expression does not compile, or is not a condition; the text is for the administrator."""


class ConditionsFailed(Exception):
    """Conditions have errors, and none is false."""


class Condition(NamedTuple):
    text: str
    program: Program


@lru_cache(maxsize=4 * CONDITIONS_MAX)
def compile_condition(text: str, *, has_selectors: bool = True) -> Condition:
    """Returns a compiled match condition of a webhook. Raises InvalidCondition.

    has_selectors: whether it may use the selectors of a request (gate AuthorizeWithSelectors). It may use
    all libraries: no other server reads the file.
    The result is cached, so that a file's conditions are compiled in the thread that checks the file.
    """
    environment = _environment(has_selectors)
    try:
        checked = environment.check(text)
    except InvalidExpression as error:
        raise InvalidCondition(f"compilation failed: {error}") from None
    if checked.type != BOOL:
        shown = checked.type.name or checked.type.kind.value
        raise InvalidCondition(f"must evaluate to bool but got {shown}")
    try:
        return Condition(text, environment.program(checked))
    except ProgramError as error:
        raise InvalidCondition(f"program instantiation failed: {error}") from None


def are_met(conditions: Sequence[Condition], request: Document, cost_max: int) -> bool:
    """Returns whether all conditions are true. Raises ConditionsFailed, TakesLong.

    cost_max: the limit for all together.
    """
    errors: list[str] = []
    variables = {"request": request}
    for text, program in conditions:
        try:
            met, cost = program(variables, min(cost_max, PER_CALL_LIMIT))
        except CostExceeded:
            raise TakesLong from None
        except EvaluationError as error:
            cost_max -= error.cost
            errors.append(f"cel evaluation error: expression '{text}' resulted in error: {error}")
            continue
        cost_max -= cost
        if met is not True:
            return False
    if errors:
        raise ConditionsFailed(aggregate(errors))
    return True


def _object(name: str, fields: Mapping[str, Type]) -> Type:
    return types.object_of(f"kubernetes.{name}", {key: Field(key, type_) for key, type_ in fields.items()})


@lru_cache(maxsize=2)
def _environment(has_selectors: bool) -> Environment:
    strings = types.list_of(STRING)
    requirement = _object("SelectorRequirement", {"key": STRING, "operator": STRING, "values": strings})
    selector_fields = {"rawSelector": STRING, "requirements": types.list_of(requirement)}
    names = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
    selectors = {
        "fieldSelector": _object("FieldSelectorAttributes", selector_fields),
        "labelSelector": _object("LabelSelectorAttributes", selector_fields),
    }
    resource = _object(
        "ResourceAttributes", {**dict.fromkeys(names, STRING), **(selectors if has_selectors else {})}
    )
    request = _object(
        "SubjectAccessReviewSpec",
        {
            "resourceAttributes": resource,
            "nonResourceAttributes": _object("NonResourceAttributes", {"path": STRING, "verb": STRING}),
            "user": STRING,
            "groups": strings,
            "extra": types.map_of(STRING, strings),
            "uid": STRING,
        },
    )
    return kubernetes_environment({"request": request})
