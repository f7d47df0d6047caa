"""What holds whatever rules are stored: masters may do everything, and a server that has none yet says how
it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.authz.attributes import NO_OPINION, Attributes, Authorizer, Decision, Verdict
from apiserver.vocabulary import MASTERS

# Of Kubernetes' default role `system:public-info-viewer`.
_PROBES: Final = frozenset({"/healthz", "/livez", "/readyz"})
_ALLOW: Final = Verdict(Decision.ALLOW)


def authorize_masters(attributes: Attributes) -> Verdict:
    return _ALLOW if MASTERS in attributes.user.groups else NO_OPINION


def authorize_health(has_begun: Callable[[], bool]) -> Authorizer:
    """has_begun: the default roles are there; from then on they say who may ask.

    Without it, a server that cannot reach its store would say Forbidden instead of not being ready.
    """

    def authorize(attributes: Attributes) -> Verdict:
        if (
            attributes.is_resource
            or attributes.verb != "get"
            or attributes.path not in _PROBES
            or has_begun()
        ):
            return NO_OPINION
        return _ALLOW

    return authorize
