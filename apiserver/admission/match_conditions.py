"""Evaluates match conditions, which decide whether a webhook or a policy sees a request. Pure.

Source: k8s.io/apiserver, pkg/admission/plugin/webhook/matchconditions/matcher.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol, Self

from apiserver.auth.authz.expression_authorizer import UserAuthorizer
from apiserver.cel.admission import (
    AUTHORIZER_NAME,
    CONDITION,
    NAMESPACE_OBJECT,
    OBJECT,
    OLD_OBJECT,
    REQUEST,
    REQUEST_RESOURCE,
    AdmissionCompiler,
    CompilationFailed,
)
from apiserver.cel.compiler import Program
from apiserver.cel.costs import PER_CALL_LIMIT
from apiserver.cel.library.authorizer import AuthorizerValue, CheckAttributes, ResourceCheck
from apiserver.cel.library.timestamps import parse_timestamp
from apiserver.cel.values import CostExceeded, EvaluationError
from apiserver.golang.quoting import aggregate
from apiserver.meta.vocabulary import Document

# Of all conditions of a webhook together, for one request.
# kube-apiserver: RuntimeCELCostBudgetMatchConditions.
COST_BUDGET: Final = 2_500_000


class MatchCondition(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def program(self) -> Program | None: ...
    @property
    def error(self) -> str: ...


class CompiledCondition(NamedTuple):
    """A match condition. program: None if it does not compile; then `error` has the reason."""

    text: str
    program: Program | None
    error: str = ""

    @classmethod
    def of(cls, text: str) -> Self:
        text = text.strip()
        try:
            return cls(text, _COMPILER.compile(text, CONDITION).program)
        except CompilationFailed as failed:
            return cls(text, None, str(failed))


_COMPILER: Final = AdmissionCompiler(has_params=False)


def worst_cost(text: str) -> int | None:
    """Returns the greatest cost of a condition that compiles; None if it depends on the objects."""
    return _COMPILER.worst_cost(text.strip(), CONDITION)


class ConditionsOutcome(NamedTuple):
    """The outcome of match conditions. is_false: whether one is false, which outweighs errors of others."""

    is_false: bool
    errors: Sequence[str]

    @property
    def failure(self) -> str:
        """The text about the errors for the client; empty if there are none, or if they do not matter."""
        return aggregate(self.errors) if self.errors and not self.is_false else ""


def outcome_of(
    conditions: Sequence[MatchCondition],
    request: Document,
    new: Document | None,
    old: Document | None,
    authorizer: UserAuthorizer,
    namespace: Document | None,
) -> ConditionsOutcome:
    """Evaluates the conditions of a webhook, up to the first that is false.

    request: that of a review, without its objects. namespace: see `namespace_object`; None if there is none,
    or if no condition names it. Raises DecisionNeeded.
    """
    variables = {
        OBJECT: new,
        OLD_OBJECT: old,
        REQUEST: request,
        NAMESPACE_OBJECT: namespace,
        **authorizer_variables(request, authorizer),
    }
    budget = COST_BUDGET
    errors: list[str] = []
    for each in conditions:
        if each.program is None:
            errors.append(each.error)
            continue
        try:
            met, cost = each.program(variables, min(budget, PER_CALL_LIMIT))
        except EvaluationError as error:
            budget -= error.cost
            errors.append(f"expression '{each.text}' resulted in error: {error}")
        except CostExceeded:
            errors.append(
                "validation failed due to running out of cost budget, no further validation rules will be run"
            )
            break
        else:
            budget -= cost
            if met is False:
                return ConditionsOutcome(True, errors)
    return ConditionsOutcome(False, errors)


_NAMESPACE_FIELDS: Final = (
    *("name", "generateName", "namespace", "labels", "annotations", "deletionGracePeriodSeconds"),
    *("generation", "resourceVersion", "finalizers"),
)


def namespace_object(document: Document) -> Document:
    """Returns a Namespace as expressions of admission see it."""
    meta = document["metadata"]
    seen: Document = {name: meta[name] for name in _NAMESPACE_FIELDS if name in meta}
    seen["UID"] = meta.get("uid", "")
    for name in ("creationTimestamp", "deletionTimestamp"):
        if when := parse_timestamp(meta.get(name) or ""):
            seen[name] = when
    return {"metadata": seen, "spec": document.get("spec") or {}, "status": document.get("status") or {}}


def authorizer_variables(request: Document, authorizer: UserAuthorizer) -> dict[str, Any]:
    """Returns the variables by which expressions of admission check the user's permissions."""
    resource = request["requestResource"]
    attributes = CheckAttributes(
        group=resource["group"],
        resource=resource["resource"],
        subresource=request.get("requestSubResource", ""),
        namespace=request.get("namespace", ""),
        name=request.get("name", ""),
    )
    return {
        AUTHORIZER_NAME: AuthorizerValue(authorizer),
        REQUEST_RESOURCE: ResourceCheck(authorizer, attributes),
    }
