"""The attributes of a request that authorizers decide about, and their decisions."""

from __future__ import annotations

import enum
import math
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

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
