"""The attributes of a request that authorizers decide about, and their decisions."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from apiserver.errors import Forbidden
from apiserver.vocabulary import GroupResource, UserInfo


class Attributes(NamedTuple):
    """Who wants to do what to which resource, or to which path: then only `verb` and `path` count."""

    user: UserInfo
    verb: str
    is_resource: bool
    path: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Decision(enum.Enum):
    ALLOW = "allow"
    DENY = "deny"
    NO_OPINION = "no opinion"


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Decision
    reason: str = ""


Authorizer = Callable[[Attributes], Verdict]
NO_OPINION = Verdict(Decision.NO_OPINION)


class AuthorizationChain:
    """Asks authorizers in order until one allows or denies."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = tuple(authorizers)

    def __call__(self, attributes: Attributes) -> Verdict:
        reasons = []
        for authorizer in self._authorizers:
            verdict = authorizer(attributes)
            if verdict.decision is not Decision.NO_OPINION:
                return verdict
            if verdict.reason:
                reasons.append(verdict.reason)
        return Verdict(Decision.NO_OPINION, "\n".join(reasons))

    def require(self, attributes: Attributes) -> None:
        """Raises Forbidden, with who may not do what, unless the request is allowed."""
        verdict = self(attributes)
        if verdict.decision is not Decision.ALLOW:
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
