"""Builds the configured authorizers, in their order.

The first authorizer is always the one for the group `system:masters`, which may do everything.
Source: k8s.io/kubernetes, pkg/kubeapiserver/authorizer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from apiserver.auth.authz.attributes import (
    NO_OPINION,
    Attributes,
    Authorizer,
    Decision,
    PendingDecision,
    Verdict,
)
from apiserver.auth.authz.chain import AuthorizationChain, DecisionCount, Step, authorize_masters
from apiserver.auth.authz.configuration import (
    ALWAYS_ALLOW,
    ALWAYS_DENY,
    NODE,
    RBAC,
    WEBHOOK,
    ConfiguredAuthorizer,
    WebhookSettings,
)
from apiserver.auth.authz.node.authorizer import NodeAuthorizer, node_options
from apiserver.auth.authz.node.graph import NodeGraph
from apiserver.auth.authz.rbac.authorizer import RbacAuthorizer, Turn
from apiserver.auth.authz.rbac.default_roles import role_rules
from apiserver.auth.authz.rbac.policy import RbacPolicy
from apiserver.auth.authz.rbac.rules import ANY
from apiserver.auth.authz.rule_resolver import NonResourceRule, ResourceRule, RuleResolver, RuleSet, all_rules
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import DEFAULT_MINOR
from apiserver.meta.releases.gates import FeatureGates, gates_of
from apiserver.meta.vocabulary import UserInfo

# The paths that Kubernetes' default role `system:public-info-viewer` opens to everybody, without /version.
_HEALTH_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz"})
_ALLOW: Final = Verdict(Decision.ALLOW)


# Makes the authorizer that asks a webhook, by the name that it has in metrics and messages.
WebhookFactory = Callable[[str, WebhookSettings], Authorizer]


class NotEnabledAtStart(ValueError):
    """A configuration names an authorizer whose parts were not built when the server started."""


class Authorizers:
    """The authorizers of the current configuration.

    chain: decides about one request. rbac_policy: the roles and bindings of RBAC; node_graph: the objects
    related to nodes. They exist if the first configuration has RBAC and Node, and are empty until
    `controllers.rbac_policy` and `controllers.node_graph` fill them. configured: the current authorizers.
    extensions: the authorizers of extensions.
    """

    def __init__(
        self,
        configured: Sequence[ConfiguredAuthorizer],
        brand: Brand,
        has_default_roles: Callable[[], bool],
        make_webhook: WebhookFactory | None = None,
        turns: Callable[[], Turn] | None = None,
        gates: FeatureGates | None = None,
    ) -> None:
        """has_default_roles: whether the default roles are stored. make_webhook: makes the authorizers of
        webhooks, if there are any.

        turns: those of the event loop, for long decisions. gates: None: those of the default release.
        """
        is_on = (gates or gates_of(DEFAULT_MINOR, ())).is_on
        self.extensions: Sequence[Authorizer] = ()
        self._sees_selectors = is_on("AuthorizeWithSelectors")
        types = {each.type for each in configured}
        self.chain = AuthorizationChain()
        self.rbac_policy = RbacPolicy(brand.group("rbac.authorization")) if RBAC in types else None
        self.node_graph = NodeGraph() if NODE in types else None
        self._counts: dict[tuple[str, str], DecisionCount] = {}
        self._steps: Sequence[Step] = ()
        self._resolvers: Sequence[RuleResolver] = ()
        self._resolve: RuleResolver = all_rules(())
        self._local: dict[str, tuple[Authorizer, RuleResolver]] = {
            ALWAYS_ALLOW: (_always_allow, _every_rule),
            ALWAYS_DENY: (_always_deny, _no_rules),
        }
        self._health = authorize_health(has_default_roles)
        if self.rbac_policy is not None:
            rbac = RbacAuthorizer(self.rbac_policy, turns)
            self._local[RBAC] = rbac, rbac.rules
        if self.node_graph is not None:
            rules = role_rules(brand, "system:node", is_on)
            node = NodeAuthorizer(self.node_graph, rules, brand.group, node_options(is_on))
            self._local[NODE] = node, node.rules_of
        self.configure(configured, make_webhook)

    def configure(
        self, configured: Sequence[ConfiguredAuthorizer], make_webhook: WebhookFactory | None = None
    ) -> None:
        """Use these authorizers from now on. Raises NotEnabledAtStart, and then changes nothing."""
        steps: list[Step] = []
        resolvers: list[RuleResolver] = []
        for each in configured:
            if each.type == WEBHOOK:
                assert each.webhook is not None
                assert make_webhook is not None
                authorizer = make_webhook(each.name, each.webhook)
                resolver: RuleResolver = _unknown_rules
            elif each.type in self._local:
                authorizer, resolver = self._local[each.type]
            else:
                raise NotEnabledAtStart(
                    f"authorizer type {each.type} is not allowed if it was not enabled at initial server "
                    "startup"
                )
            if not self._sees_selectors:
                authorizer = partial(_without_selectors, authorizer)
            count = self._counts.setdefault((each.type, each.name), DecisionCount(each.type, each.name))
            steps.append((authorizer, count))
            resolvers.append(resolver)
            if each.type == RBAC:
                steps.append((self._health, DecisionCount()))
        self.configured = tuple(configured)
        self._steps, self._resolvers = steps, resolvers
        self._replace()

    def extend(self, extensions: Sequence[Authorizer]) -> None:
        """Ask the authorizers of extensions before the configured ones, whatever these are."""
        self.extensions = tuple(extensions)
        self._replace()

    def _replace(self) -> None:
        first = [(each, DecisionCount()) for each in (authorize_masters, *self.extensions)]
        self.chain.replace([*first, *self._steps])
        self._resolve = all_rules([*self._resolvers, *(_unknown_rules for _ in self.extensions)])

    def rules(self, user: UserInfo, namespace: str, words_max: float = math.inf) -> RuleSet:
        """Lists what a user may do, as a `RuleResolver`. Raises TooManyWords."""
        return self._resolve(user, namespace, words_max)

    @property
    def counts(self) -> Sequence[DecisionCount]:
        """The number of decisions of each authorizer that is or was configured."""
        return list(self._counts.values())


def authorize_health(has_default_roles: Callable[[], bool]) -> Callable[[Attributes], Verdict]:
    """Lets all users read the health endpoints until the default roles are stored; then roles decide.

    Otherwise a server that cannot reach its store would respond with Forbidden instead of not ready.
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


def _without_selectors(authorize: Authorizer, attributes: Attributes) -> Verdict | PendingDecision:
    """Decides about a request as if it had no selectors."""
    return authorize(attributes._replace(field_selector="", label_selector=""))


def _always_allow(attributes: Attributes) -> Verdict:
    return _ALLOW


def _always_deny(attributes: Attributes) -> Verdict:
    """Neither allows nor denies, so that later authorizers may allow; a request that none allows is
    denied.
    """
    return Verdict(Decision.NO_OPINION, "Everything is forbidden.")


def _no_rules(user: UserInfo, namespace: str, words_max: float) -> RuleSet:
    return RuleSet()


def _unknown_rules(user: UserInfo, namespace: str, words_max: float) -> RuleSet:
    problem = "webhook authorizer does not support user rule resolution"
    return RuleSet(is_incomplete=True, problems=[problem])


def _every_rule(user: UserInfo, namespace: str, words_max: float) -> RuleSet:
    return RuleSet([ResourceRule((ANY,), (ANY,), (ANY,))], [NonResourceRule((ANY,), (ANY,))])
