"""Authorization checks: `authorizer.group('apps').resource('deployments').check('create').allowed()`.

Who decides is a variable's value: an `AuthorizerValue` around an `ExpressionAuthorizer`.
Source: k8s.io/apiserver, pkg/cel/library/authz.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol

from apiserver.cel import types
from apiserver.cel.compatibility_version import SELECTORS_GATE
from apiserver.cel.functions import (
    LIST_COST,
    MESSAGE_COST,
    ONE,
    STRING_FACTOR,
    Argument,
    Bounds,
    CallEstimate,
    Library,
    Overload,
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
    """What a check is about: a path, if there is one, else a resource in any version.

    service_account: (namespace, name) of who would do it; None: who makes the request.
    field_selector, label_selector: as the expression has them; what does not parse does not count.
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
    """The result of a check. error: why it could not be decided, in which case it is not allowed."""

    cel_type: ClassVar[Type] = DECISION
    is_allowed: bool
    reason: str = ""
    error: str | None = None


class ExpressionAuthorizer(Protocol):
    def decide(self, attributes: CheckAttributes) -> DecisionValue:
        """Decides at once. What it raises ends the evaluation."""


@dataclass(frozen=True, slots=True)
class _CheckBuilder:
    """An authorizer, and what is known so far of what it is to check."""

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
    """The value of a variable `authorizer.requestResource`, too."""

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
    """Returns a check with one more attribute."""

    def step(builder: _CheckBuilder, value: str) -> _CheckBuilder:
        if not may_be_empty and not value.strip():
            raise EvaluationError(f"{attribute} must not be empty")
        change: dict[str, Any] = {attribute: value}
        return class_(builder.authorizer, replace(builder.attributes, **change))

    return step


# ---- costs


def _selector_cost(size: Bounds) -> Bounds:
    """The cost of parsing a selector, and of a list and a struct for each requirement of two characters."""
    requirements = size.scaled(0.5).scaled(LIST_COST + MESSAGE_COST)
    return Bounds(LIST_COST, LIST_COST).plus(size.scaled(STRING_FACTOR)).plus(requirements)


def _cost_of_selector(args: Sequence[Any], result: Any) -> int:
    size = len(args[1])
    return LIST_COST + math.ceil(size * STRING_FACTOR) + math.ceil(size * 0.5) * (LIST_COST + MESSAGE_COST)


def _estimate_selector(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(_selector_cost(args[1].size))


def _method(
    id_: str, args: tuple[Type, ...], result: Type, call: Callable[..., Any], cost: int = 1
) -> Overload:
    estimated = CallEstimate(Bounds(cost, cost) if cost > 1 else ONE)
    call_cost = (lambda _, __: cost) if cost > 1 else None
    return Overload(
        id_, args, result, call, is_method=True, call_cost=call_cost, estimate=lambda _: estimated
    )


def _resource_step(name: str, attribute: str) -> tuple[Overload, ...]:
    call = _step(ResourceCheck, attribute)
    return (_method(name, (RESOURCE_CHECK, STRING), RESOURCE_CHECK, call),)


def _selector(name: str, attribute: str) -> tuple[Overload, ...]:
    return (
        Overload(
            name,
            (RESOURCE_CHECK, STRING),
            RESOURCE_CHECK,
            _step(ResourceCheck, attribute),
            is_method=True,
            call_cost=_cost_of_selector,
            estimate=_estimate_selector,
        ),
    )


def _of_decision(name: str, result: Type, call: Callable[[DecisionValue], Any]) -> tuple[Overload, ...]:
    return (_method(f"decision_{name}", (DECISION,), result, call),)


AUTHORIZERS: Final = Library(
    "kubernetes.authz",
    MappingProxyType(
        {
            "path": (
                _method(
                    "authorizer_path",
                    (AUTHORIZER, STRING),
                    PATH_CHECK,
                    _step(PathCheck, "path", may_be_empty=False),
                ),
            ),
            "group": (
                _method("authorizer_group", (AUTHORIZER, STRING), GROUP_CHECK, _step(GroupCheck, "group")),
            ),
            "serviceAccount": (
                _method(
                    "authorizer_serviceaccount", (AUTHORIZER, STRING, STRING), AUTHORIZER, _service_account
                ),
            ),
            "resource": (
                _method(
                    "groupcheck_resource",
                    (GROUP_CHECK, STRING),
                    RESOURCE_CHECK,
                    _step(ResourceCheck, "resource", may_be_empty=False),
                ),
            ),
            "subresource": _resource_step("resourcecheck_subresource", "subresource"),
            "namespace": _resource_step("resourcecheck_namespace", "namespace"),
            "name": _resource_step("resourcecheck_name", "name"),
            "check": (
                _method("pathcheck_check", (PATH_CHECK, STRING), DECISION, _CheckBuilder.check, _CHECK_COST),
                _method(
                    "resourcecheck_check",
                    (RESOURCE_CHECK, STRING),
                    DECISION,
                    _CheckBuilder.check,
                    _CHECK_COST,
                ),
            ),
            "allowed": _of_decision("allowed", BOOL, lambda decision: decision.is_allowed),
            "reason": _of_decision("reason", STRING, lambda decision: decision.reason),
            "errored": _of_decision("errored", BOOL, lambda decision: decision.error is not None),
            "error": _of_decision("error", STRING, lambda decision: decision.error or ""),
        }
    ),
    constants=MappingProxyType(
        {
            type_.name: (types.type_of_type(type_), type_)
            for type_ in (AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION)
        }
    ),
    since=(1, 27),
)
AUTHORIZER_SELECTORS: Final = Library(
    "kubernetes.authzSelectors",
    MappingProxyType(
        {
            "fieldSelector": _selector("authorizer_fieldselector", "field_selector"),
            "labelSelector": _selector("authorizer_labelselector", "label_selector"),
        }
    ),
    gate=SELECTORS_GATE,
)
