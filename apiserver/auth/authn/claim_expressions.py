"""Compiles and evaluates expressions about the claims of a token, and about the user made from them.

Source: k8s.io/apiserver, pkg/authentication/cel. Unlike there, their cost is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from apiserver.cel import syntax, types
from apiserver.cel.compiler import Program, ProgramError
from apiserver.cel.kubernetes_environments import kubernetes_environment
from apiserver.cel.references import references
from apiserver.cel.syntax import InvalidExpression, Node, children
from apiserver.cel.types import BOOL, DYN, STRING, Field
from apiserver.cel.values import CostExceeded, EvaluationError
from apiserver.load.size_class import TakesLong

if TYPE_CHECKING:
    from apiserver.cel.environment import Environment

CLAIMS: Final = "claims"
USER: Final = "user"
# The limit for all expressions about one token together, some 50 ms: the user chooses the claims, but not the
# rules.
COST_MAX: Final = 200_000
# How much of it is evaluated on the event loop: some 5 ms.
COST_ON_LOOP_MAX: Final = 20_000

_TEXTS: Final = types.list_of(STRING)
_CLAIMS_TYPE: Final = types.map_of(STRING, DYN)
_USER_TYPE: Final = types.object_of(
    "kubernetes.UserInfo",
    {
        "username": Field("username", STRING),
        "uid": Field("uid", STRING),
        "groups": Field("groups", _TEXTS),
        "extra": Field("extra", types.map_of(STRING, _TEXTS)),
    },
)
# How names that no identifier can be are written after a dot.
_ESCAPED: Final = re.compile("__(underscores|dot|dash|slash)__")
_CHARACTERS: Final = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


class CompilationFailed(Exception):
    """An expression does not compile, or does not have the required type; the text is for the log."""


class EvaluationFailed(Exception):
    """An expression has no value for these claims."""


@dataclass(frozen=True, slots=True, eq=False)
class ClaimExpression:
    """A compiled expression about claims.

    variable: the only one that it may use. claims: those that it uses.
    """

    text: str
    variable: str
    program: Program
    claims: frozenset[str]


class CostBudget:
    """The remaining cost budget of the expressions about one token.

    is_on_loop: whether they run on the event loop, so that long evaluations move to a thread.
    """

    def __init__(self, *, is_on_loop: bool) -> None:
        self._is_on_loop = is_on_loop
        self._left = COST_ON_LOOP_MAX if is_on_loop else COST_MAX

    def evaluate(self, expression: ClaimExpression, value: Mapping[str, Any]) -> Any:
        """Returns the value of an expression, and charges its cost. Raises EvaluationFailed, TakesLong."""
        try:
            result, cost = expression.program({expression.variable: value}, self._left)
        except EvaluationError as error:
            raise EvaluationFailed(f"expression '{expression.text}' resulted in error: {error}") from None
        except CostExceeded:
            if self._is_on_loop:
                raise TakesLong from None
            raise EvaluationFailed(
                f"expression '{expression.text}' resulted in error: the expressions cost too much"
            ) from None
        self._left -= cost
        return result


def compile_expression(text: str, variable: str, *, is_condition: bool = False) -> ClaimExpression:
    """Returns a compiled expression. is_condition: whether it must return a bool. Raises
    CompilationFailed.
    """
    environment = _environment(variable)
    try:
        checked = environment.check(text)
    except InvalidExpression as error:
        raise CompilationFailed(f"compilation failed: {error}") from None
    if is_condition and checked.type != BOOL:
        raise CompilationFailed("must evaluate to bool")
    named = references(checked.node).fields.get(variable)
    _unescape(checked.node)
    try:
        program = environment.program(checked)
    except ProgramError as error:
        raise CompilationFailed(f"program instantiation failed: {error}") from None
    return ClaimExpression(text, variable, program, frozenset(named.fields if named is not None else ()))


def _unescape(node: Node) -> None:
    """Allow escaped names of fields in claims: `claims.example__dot__com__slash__role`."""
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, syntax.Select):
            node.key = _ESCAPED.sub(lambda match: _CHARACTERS[match[1]], node.key or node.field)
        pending.extend(children(node))


@lru_cache(2)
def _environment(variable: str) -> Environment:
    return kubernetes_environment({variable: _CLAIMS_TYPE if variable == CLAIMS else _USER_TYPE})
