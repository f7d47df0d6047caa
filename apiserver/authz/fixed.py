"""What holds whatever rules are stored: masters may do everything, some paths are for everybody, and whoever
has said who they are may ask about themselves.

The paths are those of Kubernetes' default roles `system:public-info-viewer`, `system:discovery` and
`system:monitoring`, the questions those of `system:basic-user`.
"""

from __future__ import annotations

from typing import Final

from apiserver.authz.attributes import NO_OPINION, Attributes, Authorizer, Decision, Verdict
from apiserver.authz.rules import NonResourceRule, ResourceRule, RuleResolver, RuleSet
from apiserver.brand import Brand
from apiserver.vocabulary import AUTHENTICATED, MASTERS, UserInfo

_PUBLIC: Final = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
_DISCOVERY: Final = frozenset({"/api", "/apis", "/openapi"})
_MONITORING: Final = frozenset({"/healthz", "/livez", "/metrics", "/readyz"})
_MONITORS: Final = "system:monitoring"
_ALLOW: Final = Verdict(Decision.ALLOW)


def authorize_masters(attributes: Attributes) -> Verdict:
    return _ALLOW if MASTERS in attributes.user.groups else NO_OPINION


def authorize_public_paths(attributes: Attributes) -> Verdict:
    """Health and version for all; discovery for whoever has said who they are; metrics for monitors."""
    if attributes.is_resource or attributes.verb != "get":
        return NO_OPINION
    path = attributes.path
    if path in _PUBLIC:
        return _ALLOW
    groups = attributes.user.groups
    top = "/" + path.strip("/").partition("/")[0]
    if top in _DISCOVERY and AUTHENTICATED in groups:
        return _ALLOW
    if top in _MONITORING and _MONITORS in groups:
        return _ALLOW
    return NO_OPINION


def self_reviews(brand: Brand) -> Authorizer:
    """Whoever has said who they are may ask who they are, and what they may do."""
    reviews = {rule.api_groups[0]: rule.resources for rule in _review_rules(brand)}

    def authorize(attributes: Attributes) -> Verdict:
        if (
            attributes.verb == "create"
            and attributes.resource in reviews.get(attributes.group, ())
            and not attributes.subresource
            and AUTHENTICATED in attributes.user.groups
        ):
            return _ALLOW
        return NO_OPINION

    return authorize


def _review_rules(brand: Brand) -> tuple[ResourceRule, ...]:
    return (
        ResourceRule(
            ("create",),
            (brand.group("authorization"),),
            ("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        ),
        ResourceRule(("create",), (brand.group("authentication"),), ("selfsubjectreviews",)),
    )


def fixed_rules(brand: Brand) -> RuleResolver:
    """All of the above as rules."""

    def resolve(user: UserInfo, namespace: str) -> RuleSet:
        resources: list[ResourceRule] = []
        paths = [NonResourceRule(("get",), tuple(sorted(_PUBLIC)))]
        if MASTERS in user.groups:
            resources.append(ResourceRule(("*",), ("*",), ("*",)))
            paths.append(NonResourceRule(("*",), ("*",)))
        if AUTHENTICATED in user.groups:
            resources += _review_rules(brand)
            below = [path for top in sorted(_DISCOVERY) for path in (top, f"{top}/*")]
            paths.append(NonResourceRule(("get",), tuple(below)))
        if _MONITORS in user.groups:
            below = [path for top in sorted(_MONITORING) for path in (top, f"{top}/*")]
            paths.append(NonResourceRule(("get",), tuple(below)))
        return RuleSet(resources, paths)

    return resolve
