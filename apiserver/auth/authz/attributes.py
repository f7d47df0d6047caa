"""The attributes of a request that authorizers decide about, and their decisions."""

from __future__ import annotations

import enum
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from apiserver.golang.quoting import aggregate
from apiserver.meta.errors import Forbidden, InternalError
from apiserver.meta.vocabulary import GroupResource, UserInfo


class SelectorRequirement(NamedTuple):
    """One condition of a selector, with the operators of the API: In, NotIn, Exists, DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


# As in the query of a request, before it is parsed, or as in an access review.
Selector: TypeAlias = str | tuple[SelectorRequirement, ...]


# Where it is asked about a resource in whatever version.
ANY_VERSION: Final = "*"


class Attributes(NamedTuple):
    """The attributes of a request: its user, verb, and resource or path; for a path only `verb` and `path`
    count.

    field_selector, label_selector: the objects of a collection that it is about, read by `selectors`. As
        selectors only narrow a request, an authorizer that ignores them decides about more objects.
    """

    user: UserInfo
    verb: str
    is_resource: bool = True
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    version: str = ""
    field_selector: Selector = ""
    label_selector: Selector = ""


class Decision(enum.Enum):
    ALLOW = "allow"
    DENY = "deny"
    NO_OPINION = "no opinion"


# For what every request passes: looking up a member of an enumeration takes three times as long.
ALLOW: Final = Decision.ALLOW
DENY: Final = Decision.DENY


class Verdict(NamedTuple):
    """The decision of an authorizer about a request, with its reason.

    error: an error during the decision; the request fails with it unless it is allowed.
    """

    decision: Decision
    reason: str = ""
    error: str = ""


class PendingDecision:
    """The decision of an authorizer that has to call a webhook, or to wait, first."""

    __slots__ = ("_decide",)

    def __init__(self, decide: Callable[[float], Awaitable[Verdict]]) -> None:
        """decide: calls or waits until a deadline, and returns the verdict."""
        self._decide = decide

    async def decide(self, deadline: float = math.inf) -> Verdict:
        """Returns the verdict; an authorizer without one by the deadline has failed.

        deadline: by the clock of the event loop. Raises TooManyRequests if too many requests wait already.
        """
        return await self._decide(deadline)


# Nearly all answer at once, and must not take long.
Authorizer: TypeAlias = Callable[[Attributes], Verdict | PendingDecision]
NO_OPINION: Final = Verdict(Decision.NO_OPINION)


async def is_allowed(authorize: Authorizer, attributes: Attributes) -> bool:
    """Returns whether an authorizer allows a request, waiting if necessary."""
    return (await decided(authorize, attributes)).decision is ALLOW


async def decided(authorize: Authorizer, attributes: Attributes) -> Verdict:
    """Returns an authorizer's verdict, waiting if necessary."""
    answer = authorize(attributes)
    return answer if isinstance(answer, Verdict) else await answer.decide()


class DecisionCount:
    """Counts the decisions of an authorizer. type, name: those of the authorizer, as in its configuration."""

    __slots__ = ("allowed", "denied", "name", "type")

    def __init__(self, type_: str = "", name: str = "") -> None:
        self.type, self.name = type_, name
        self.allowed = self.denied = 0


Step: TypeAlias = tuple[Authorizer, DecisionCount]


class AuthorizationChain:
    """Calls authorizers in order until one allows or denies; it is an `Authorizer` itself.

    generation: a number that grows when the authorizers are replaced.
    """

    def __init__(self, authorizers: Sequence[Authorizer] = ()) -> None:
        self._steps: tuple[Step, ...] = tuple((each, DecisionCount()) for each in authorizers)
        self.generation = 0

    def replace(self, steps: Sequence[Step]) -> None:
        """Use these authorizers from now on; pending decisions are made by the previous ones."""
        self._steps = tuple(steps)
        self.generation += 1

    def __call__(self, attributes: Attributes) -> Verdict | PendingDecision:
        reasons: list[Verdict] = []
        steps = self._steps
        for number, (authorize, count) in enumerate(steps):
            answer = authorize(attributes)
            if answer is NO_OPINION:
                continue
            if answer.__class__ is PendingDecision:
                return PendingDecision(
                    partial(self._decide_from, steps[number:], answer, attributes, reasons)
                )
            assert isinstance(answer, Verdict)
            if _is_final(answer, count):
                return answer
            reasons.append(answer)
        return _without_opinion(reasons)

    async def _decide_from(
        self,
        steps: Sequence[Step],
        answer: Verdict | PendingDecision,
        attributes: Attributes,
        reasons: list[Verdict],
        deadline: float,
    ) -> Verdict:
        """Continues with the first of some steps, whose result is known, and the others after it."""
        for number, (authorize, count) in enumerate(steps):
            if number:
                answer = authorize(attributes)
            verdict = answer if isinstance(answer, Verdict) else await answer.decide(deadline)
            if _is_final(verdict, count):
                return verdict
            reasons.append(verdict)
        return _without_opinion(reasons)

    async def decide(self, attributes: Attributes) -> Verdict:
        return await decided(self, attributes)

    async def require(self, attributes: Attributes) -> None:
        """Refuse a request unless it is allowed. Raises Forbidden, with the user and the denied action.

        Raises InternalError if it could not be decided.
        """
        require_allowed(attributes, await decided(self, attributes))


def _is_final(verdict: Verdict, count: DecisionCount) -> bool:
    if verdict.decision is ALLOW:
        count.allowed += 1
        return True
    if verdict.decision is DENY:
        count.denied += 1
        return True
    return False


def _without_opinion(verdicts: Sequence[Verdict]) -> Verdict:
    """Joins the verdicts of authorizers that neither allow nor deny."""
    if not verdicts:
        return NO_OPINION
    errors = [each.error for each in verdicts if each.error]
    return Verdict(
        Decision.NO_OPINION,
        "\n".join(each.reason for each in verdicts if each.reason),
        aggregate(errors) if errors else "",
    )


def require_allowed(attributes: Attributes, verdict: Verdict) -> None:
    """Refuse a request that a verdict does not allow.

    Raises Forbidden; InternalError if it could not be decided.
    """
    if verdict.decision is ALLOW:
        return
    if verdict.error:
        raise InternalError.of(f"the request could not be authorized: {verdict.error}")
    raise forbidden(attributes, verdict.reason)


def forbidden(attributes: Attributes, reason: str = "") -> Forbidden:
    a, user = attributes, attributes.user.name
    because = f": {reason}" if reason else ""
    if not a.is_resource:
        return Forbidden(f'forbidden: User "{user}" cannot {a.verb} path "{a.path}"{because}')
    resource = f"{a.resource}/{a.subresource}" if a.subresource else a.resource
    where = f'in the namespace "{a.namespace}"' if a.namespace else "at the cluster scope"
    why = f'User "{user}" cannot {a.verb} resource "{resource}" in API group "{a.group}" {where}{because}'
    return Forbidden.to_resource(GroupResource(a.group, a.resource), a.name, why)
