"""The chain of authorizers, which are called in turn, beginning with the one for `system:masters`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

from apiserver.auth.authz.attributes import (
    ALLOW,
    DENY,
    NO_OPINION,
    Attributes,
    Authorizer,
    Decision,
    PendingDecision,
    Verdict,
    decided,
    require_allowed,
)
from apiserver.golang.quoting import aggregate
from apiserver.meta.vocabulary import SYSTEM_MASTERS

_ALLOW: Final = Verdict(ALLOW)


def authorize_masters(attributes: Attributes) -> Verdict:
    """Allows members of `system:masters` everything."""
    return _ALLOW if SYSTEM_MASTERS in attributes.user.groups else NO_OPINION


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
