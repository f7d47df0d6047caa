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


# As in the query of a request, where nobody has parsed it yet, or as in an access review.
Selector: TypeAlias = str | tuple[SelectorRequirement, ...]


# Where it is asked about a resource in whatever version.
ANY_VERSION: Final = "*"


class Attributes(NamedTuple):
    """Who wants to do what to which resource, or to which path: then only `verb` and `path` count.

    field_selector, label_selector: which objects of a collection it is about; what can be read of them is in
        `selectors`. As selectors only narrow a request, whoever does not heed them decides about more.
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

    error: what went wrong while it was decided; the request fails with it unless it is allowed.
    """

    decision: Decision
    reason: str = ""
    error: str = ""


class PendingDecision:
    """What an authorizer answers that has to ask somebody, or to wait, first."""

    __slots__ = ("_decide",)

    def __init__(self, decide: Callable[[float], Awaitable[Verdict]]) -> None:
        """decide: asks or waits until a deadline, and answers."""
        self._decide = decide

    async def decide(self, deadline: float = math.inf) -> Verdict:
        """Returns the verdict. Whoever has not answered by then has failed.

        deadline: by the clock of the event loop. Raises TooManyRequests: so many wait that nobody is asked.
        """
        return await self._decide(deadline)


# Nearly all answer at once, and must not take long.
Authorizer: TypeAlias = Callable[[Attributes], Verdict | PendingDecision]
NO_OPINION: Final = Verdict(Decision.NO_OPINION)


async def is_allowed(authorize: Authorizer, attributes: Attributes) -> bool:
    """Returns whether an authorizer allows a request, for which it may have to wait."""
    return (await decided(authorize, attributes)).decision is ALLOW


async def decided(authorize: Authorizer, attributes: Attributes) -> Verdict:
    """Returns an authorizer's verdict, for which it may have to wait."""
    answer = authorize(attributes)
    return answer if isinstance(answer, Verdict) else await answer.decide()


class DecisionCount:
    """How often an authorizer has decided. type, name: of the authorizer, as in its configuration."""

    __slots__ = ("allowed", "denied", "name", "type")

    def __init__(self, type_: str = "", name: str = "") -> None:
        self.type, self.name = type_, name
        self.allowed = self.denied = 0


Step: TypeAlias = tuple[Authorizer, DecisionCount]


class AuthorizationChain:
    """Asks authorizers in order until one allows or denies. An `Authorizer` itself.

    generation: a number that grows when other authorizers take their places.
    """

    def __init__(self, authorizers: Sequence[Authorizer] = ()) -> None:
        self._steps: tuple[Step, ...] = tuple((each, DecisionCount()) for each in authorizers)
        self.generation = 0

    def replace(self, steps: Sequence[Step]) -> None:
        """Ask these from now on. What is being decided is decided by those before."""
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
        """Goes on with the first of some steps, whose answer is known, and the others after it."""
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
        """Refuse a request unless it is allowed. Raises Forbidden, with who may not do what.

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
    """Joins the verdicts of authorizers that have no opinion."""
    if not verdicts:
        return NO_OPINION
    errors = [each.error for each in verdicts if each.error]
    return Verdict(
        Decision.NO_OPINION,
        "\n".join(each.reason for each in verdicts if each.reason),
        aggregate(errors) if errors else "",
    )


def require_allowed(attributes: Attributes, verdict: Verdict) -> None:
    """Refuse what is not allowed. Raises Forbidden; InternalError if it could not be decided."""
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
