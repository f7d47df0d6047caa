"""What holds whatever rules are stored: masters may do everything, and some paths are for everybody.

The paths are those of Kubernetes' default roles `system:public-info-viewer`, `system:discovery` and
`system:monitoring`.
"""

from __future__ import annotations

from typing import Final

from apiserver.authz.attributes import NO_OPINION, Attributes, Decision, Verdict
from apiserver.vocabulary import AUTHENTICATED, MASTERS

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
