"""Builds the authorizers that `--authorization-mode` names, in its order.

Before them comes the one for the group `system:masters`, which may do everything.
Source: k8s.io/kubernetes, pkg/kubeapiserver/authorizer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from apiserver.authz.attributes import (
    NO_OPINION,
    Attributes,
    AuthorizationChain,
    Authorizer,
    Decision,
    Verdict,
)
from apiserver.authz.rbac.authorizer import RbacAuthorizer
from apiserver.authz.rbac.policy import RbacPolicy
from apiserver.authz.rbac.rules import ANY
from apiserver.authz.rule_resolver import NonResourceRule, ResourceRule, RuleResolver, RuleSet, all_rules
from apiserver.vocabulary import MASTERS, UserInfo

ALWAYS_ALLOW: Final = "AlwaysAllow"
ALWAYS_DENY: Final = "AlwaysDeny"
RBAC: Final = "RBAC"
# Restricts kubelets to the objects of their own node. Not implemented: kubelets may do what roles allow.
NODE: Final = "Node"
MODES: Final = (ALWAYS_ALLOW, ALWAYS_DENY, RBAC, NODE)

# The paths that Kubernetes' default role `system:public-info-viewer` opens to everybody, without /version.
_HEALTH_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz"})
_ALLOW: Final = Verdict(Decision.ALLOW)


@dataclass(frozen=True, slots=True)
class Authorizers:
    """What the configured modes amount to.

    chain: decides about one request. rule_resolver: lists what a user may do.
    rbac_policy: the roles and bindings by which RBAC decides, if it is among the modes. It is empty until
        somebody fills it (`controllers.rbac_policy`).
    """

    chain: AuthorizationChain
    rule_resolver: RuleResolver
    rbac_policy: RbacPolicy | None


def build_authorizers(
    modes: Sequence[str], rbac_group: str, has_default_roles: Callable[[], bool]
) -> Authorizers:
    """rbac_group: the API group of RBAC's types. has_default_roles: whether the default roles are stored."""
    authorizers: list[Authorizer] = [authorize_masters]
    resolvers: list[RuleResolver] = []
    policy = None
    for mode in modes:
        if mode == RBAC:
            policy = RbacPolicy(rbac_group)
            rbac = RbacAuthorizer(policy)
            authorizers += (rbac, authorize_health(has_default_roles))
            resolvers.append(rbac.rules)
        elif mode == ALWAYS_ALLOW:
            authorizers.append(_always_allow)
            resolvers.append(_every_rule)
        elif mode == ALWAYS_DENY:
            authorizers.append(_always_deny)
    return Authorizers(AuthorizationChain(authorizers), all_rules(resolvers), policy)


def authorize_masters(attributes: Attributes) -> Verdict:
    """Allows members of `system:masters` everything."""
    return _ALLOW if MASTERS in attributes.user.groups else NO_OPINION


def authorize_health(has_default_roles: Callable[[], bool]) -> Authorizer:
    """Lets everybody read the health endpoints until the default roles are stored; then roles decide.

    Without it, a server that cannot reach its store would answer Forbidden instead of not being ready.
    """

    def authorize(attributes: Attributes) -> Verdict:
        if (
            attributes.is_resource
            or attributes.verb != "get"
            or attributes.path not in _HEALTH_PATHS
            or has_default_roles()
        ):
            return NO_OPINION
        return _ALLOW

    return authorize


def _always_allow(attributes: Attributes) -> Verdict:
    return _ALLOW


def _always_deny(attributes: Attributes) -> Verdict:
    """Has no opinion: authorizers after it may still allow; a request that none allows is denied."""
    return Verdict(Decision.NO_OPINION, "Everything is forbidden.")


def _every_rule(user: UserInfo, namespace: str) -> RuleSet:
    return RuleSet([ResourceRule((ANY,), (ANY,), (ANY,))], [NonResourceRule((ANY,), (ANY,))])
