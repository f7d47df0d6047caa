"""The authorizers that `--authorization-mode` names, in its order.

Masters may do everything before any of them is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from apiserver.authz.attributes import (
    Attributes,
    AuthorizationChain,
    Authorizer,
    Decision,
    Verdict,
)
from apiserver.authz.fixed import authorize_health, authorize_masters
from apiserver.authz.rbac.authorizer import RbacAuthorizer
from apiserver.authz.rbac.policy import Policy
from apiserver.authz.rbac.rules import ANY
from apiserver.authz.rule_resolver import NonResourceRule, ResourceRule, RuleResolver, RuleSet, all_rules
from apiserver.vocabulary import UserInfo

ALWAYS_ALLOW: Final = "AlwaysAllow"
ALWAYS_DENY: Final = "AlwaysDeny"
RBAC: Final = "RBAC"
# Gives kubelets what they need of their own node's objects. Not built: they have what roles give them.
NODE: Final = "Node"
MODES: Final = (ALWAYS_ALLOW, ALWAYS_DENY, RBAC, NODE)


@dataclass(frozen=True, slots=True)
class Authorizers:
    """Who may do what, as a decision and as a list of rules.

    policy: what RBAC decides by, if it is among the modes; somebody has to tell it what is stored.
    """

    chain: AuthorizationChain
    rules: RuleResolver
    policy: Policy | None


def authorization(modes: Sequence[str], rbac_group: str, has_begun: Callable[[], bool]) -> Authorizers:
    """rbac_group: of RBAC's types. has_begun: the default roles are there."""
    authorizers: list[Authorizer] = [authorize_masters]
    resolvers: list[RuleResolver] = []
    policy = None
    for mode in modes:
        if mode == RBAC:
            policy = Policy(rbac_group)
            rbac = RbacAuthorizer(policy)
            authorizers += (rbac, authorize_health(has_begun))
            resolvers.append(rbac.rules)
        elif mode == ALWAYS_ALLOW:
            authorizers.append(_always_allow)
            resolvers.append(_everything)
        elif mode == ALWAYS_DENY:
            authorizers.append(_always_deny)
    return Authorizers(AuthorizationChain(authorizers), all_rules(resolvers), policy)


def _always_allow(attributes: Attributes) -> Verdict:
    return Verdict(Decision.ALLOW)


def _always_deny(attributes: Attributes) -> Verdict:
    """Has no opinion, so that those after it may have one, and the last word is no."""
    return Verdict(Decision.NO_OPINION, "Everything is forbidden.")


def _everything(user: UserInfo, namespace: str) -> RuleSet:
    return RuleSet([ResourceRule((ANY,), (ANY,), (ANY,))], [NonResourceRule((ANY,), (ANY,))])
