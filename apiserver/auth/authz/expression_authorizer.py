"""Authorization checks in expressions (`apiserver.cel.library.authorizer`), decided by the authorizers.

Source: k8s.io/apiserver, pkg/cel/library/authz.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from apiserver.auth.authz.attributes import (
    ANY_VERSION,
    Attributes,
    Authorizer,
    Decision,
    PendingDecision,
    Verdict,
)
from apiserver.cel.library.authorizer import CheckAttributes, DecisionValue
from apiserver.meta.vocabulary import UserInfo

T = TypeVar("T")


class DecisionNeeded(Exception):
    """An expression needs a pending decision, for which an evaluation cannot wait.

    It ends the evaluation, which can be repeated once `settle` has returned.
    """

    def __init__(
        self, known: dict[Attributes, Verdict], attributes: Attributes, undecided: PendingDecision
    ) -> None:
        super().__init__(attributes.verb)
        self._known, self._attributes, self._undecided = known, attributes, undecided

    async def settle(self) -> None:
        self._known[self._attributes] = await self._undecided.decide()


async def evaluated(evaluate: Callable[[], Awaitable[T]]) -> T:
    """Evaluates repeatedly until no decision is pending, as often as the cost of expressions allows."""
    while True:
        try:
            return await evaluate()
        except DecisionNeeded as needed:
            await needed.settle()


@dataclass(frozen=True, slots=True)
class UserAuthorizer:
    """Decides what the user of a request, or a service account that an expression names, may do.

    known: verdicts that had to be waited for.
    """

    authorize: Authorizer
    user: UserInfo
    known: dict[Attributes, Verdict] = field(default_factory=dict)

    def decide(self, attributes: CheckAttributes) -> DecisionValue:
        """Returns the decision about a check. Raises DecisionNeeded if it is pending."""
        user = self.user
        if attributes.service_account is not None:
            user = _service_account(*attributes.service_account)
        asked = Attributes(
            user=user,
            verb=attributes.verb,
            is_resource=not attributes.path,
            path=attributes.path,
            group=attributes.group,
            resource=attributes.resource,
            subresource=attributes.subresource,
            namespace=attributes.namespace,
            name=attributes.name,
            version=ANY_VERSION if not attributes.path else "",
            field_selector=attributes.field_selector,
            label_selector=attributes.label_selector,
        )
        answer = self.known.get(asked) or self.authorize(asked)
        if isinstance(answer, PendingDecision):
            raise DecisionNeeded(self.known, asked, answer)
        return DecisionValue(answer.decision is Decision.ALLOW, answer.reason, answer.error or None)


def _service_account(namespace: str, name: str) -> UserInfo:
    """Returns the user of a service account, as if it had authenticated by a token."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return UserInfo(f"system:serviceaccount:{namespace}:{name}", groups)
