"""The library of authorization checks:
`authorizer.group('apps').resource('deployments').check('create').allowed()`.

The value of the variable decides: it is an `AuthorizerValue` with an `ExpressionAuthorizer`.
Source: k8s.io/apiserver, pkg/cel/library/authz.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Protocol

from apiserver.cel import types
from apiserver.cel.compatibility_version import SELECTORS_GATE
from apiserver.cel.declarations import Library, named_types
from apiserver.cel.functions import (
    LIST_COST,
    MESSAGE_COST,
    STRING_FACTOR,
    Argument,
    Bounds,
    CallEstimate,
    Overload,
    method,
)
from apiserver.cel.types import BOOL, STRING, Type
from apiserver.cel.values import EvaluationError
from apiserver.meta import names

AUTHORIZER: Final = types.opaque("kubernetes.authorization.Authorizer")
PATH_CHECK: Final = types.opaque("kubernetes.authorization.PathCheck")
GROUP_CHECK: Final = types.opaque("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK: Final = types.opaque("kubernetes.authorization.ResourceCheck")
DECISION: Final = types.opaque("kubernetes.authorization.Decision")

# The cost of a check: an expression can afford two.
_CHECK_COST: Final = 350_000


@dataclass(frozen=True, slots=True)
class CheckAttributes:
    """The attributes of a check: a path, or else a resource in any version.

    service_account: (namespace, name) of the user to check; None: the user of the request.
    field_selector, label_selector: as in the expression; invalid ones are ignored.
    """

    verb: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    service_account: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class DecisionValue:
    """The result of a check. error: the reason for an undecided check, which does not allow."""

    cel_type: ClassVar[Type] = DECISION
    is_allowed: bool
    reason: str = ""
    error: str | None = None


class ExpressionAuthorizer(Protocol):
    def decide(self, attributes: CheckAttributes) -> DecisionValue:
        """Decide at once. Exceptions of it end the evaluation."""


@dataclass(frozen=True, slots=True)
class _CheckBuilder:
    """An authorizer, and the attributes of the check so far."""

    authorizer: ExpressionAuthorizer
    attributes: CheckAttributes = CheckAttributes()

    def check(self, verb: str) -> DecisionValue:
        return self.authorizer.decide(replace(self.attributes, verb=verb))


class AuthorizerValue(_CheckBuilder):
    """The value of a variable `authorizer`."""

    __slots__ = ()
    cel_type: ClassVar[Type] = AUTHORIZER


class PathCheck(_CheckBuilder):
    __slots__ = ()
    cel_type: ClassVar[Type] = PATH_CHECK


class GroupCheck(_CheckBuilder):
    __slots__ = ()
    cel_type: ClassVar[Type] = GROUP_CHECK


class ResourceCheck(_CheckBuilder):
    """A check of a resource, which is also the value of a variable `authorizer.requestResource`."""

    __slots__ = ()
    cel_type: ClassVar[Type] = RESOURCE_CHECK


def _service_account(builder: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    if names.dns_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if names.dns_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    return AuthorizerValue(builder.authorizer, replace(builder.attributes, service_account=(namespace, name)))


def _step(
    class_: type[_CheckBuilder], attribute: str, *, may_be_empty: bool = True
) -> Callable[[_CheckBuilder, str], _CheckBuilder]:
    def step(builder: _CheckBuilder, value: str) -> _CheckBuilder:
        if not may_be_empty and not value.strip():
            raise EvaluationError(f"{attribute} must not be empty")
        change: dict[str, Any] = {attribute: value}
        return class_(builder.authorizer, replace(builder.attributes, **change))

    return step


# ---- costs


def _selector_cost(size: Bounds) -> Bounds:
    """Returns the cost of parsing a selector, and of a list and a struct per requirement of two
    characters.
    """
    requirements = size.scaled(0.5).scaled(LIST_COST + MESSAGE_COST)
    return Bounds(LIST_COST, LIST_COST).plus(size.scaled(STRING_FACTOR)).plus(requirements)


def _cost_of_selector(args: Sequence[Any], result: Any) -> int:
    size = len(args[1])
    return LIST_COST + math.ceil(size * STRING_FACTOR) + math.ceil(size * 0.5) * (LIST_COST + MESSAGE_COST)


def _estimate_selector(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(_selector_cost(args[1].size))


def _cost_of_check(args: Sequence[Any], result: Any) -> int:
    return _CHECK_COST


def _estimate_check(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(Bounds(_CHECK_COST, _CHECK_COST))


def _check(id_: str, receiver: Type) -> tuple[Overload, ...]:
    args = (receiver, STRING)
    return method(id_, args, DECISION, _CheckBuilder.check, _cost_of_check, _estimate_check)


def _resource_step(id_: str, attribute: str) -> tuple[Overload, ...]:
    return method(id_, (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _step(ResourceCheck, attribute))


def _selector(id_: str, attribute: str) -> tuple[Overload, ...]:
    args, step = (RESOURCE_CHECK, STRING), _step(ResourceCheck, attribute)
    return method(id_, args, RESOURCE_CHECK, step, _cost_of_selector, _estimate_selector)


def _of_decision(name: str, result: Type, call: Callable[[DecisionValue], Any]) -> tuple[Overload, ...]:
    return method(f"decision_{name}", (DECISION,), result, call)


AUTHORIZERS: Final = Library(
    "kubernetes.authz",
    {
        "path": method(
            "authorizer_path", (AUTHORIZER, STRING), PATH_CHECK, _step(PathCheck, "path", may_be_empty=False)
        ),
        "group": method("authorizer_group", (AUTHORIZER, STRING), GROUP_CHECK, _step(GroupCheck, "group")),
        "serviceAccount": method(
            "authorizer_serviceaccount", (AUTHORIZER, STRING, STRING), AUTHORIZER, _service_account
        ),
        "resource": method(
            "groupcheck_resource",
            (GROUP_CHECK, STRING),
            RESOURCE_CHECK,
            _step(ResourceCheck, "resource", may_be_empty=False),
        ),
        "subresource": _resource_step("resourcecheck_subresource", "subresource"),
        "namespace": _resource_step("resourcecheck_namespace", "namespace"),
        "name": _resource_step("resourcecheck_name", "name"),
        "check": (*_check("pathcheck_check", PATH_CHECK), *_check("resourcecheck_check", RESOURCE_CHECK)),
        "allowed": _of_decision("allowed", BOOL, lambda decision: decision.is_allowed),
        "reason": _of_decision("reason", STRING, lambda decision: decision.reason),
        "errored": _of_decision("errored", BOOL, lambda decision: decision.error is not None),
        "error": _of_decision("error", STRING, lambda decision: decision.error or ""),
    },
    constants=named_types(AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION),
    since=(1, 27),
)
AUTHORIZER_SELECTORS: Final = Library(
    "kubernetes.authzSelectors",
    {
        "fieldSelector": _selector("authorizer_fieldselector", "field_selector"),
        "labelSelector": _selector("authorizer_labelselector", "label_selector"),
    },
    gate=SELECTORS_GATE,
)
