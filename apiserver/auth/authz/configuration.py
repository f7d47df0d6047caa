"""Reads the configured authorizers, in their order, from flags or an AuthorizationConfiguration.

Source: k8s.io/apiserver, pkg/apis/apiserver (AuthorizationConfiguration).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

ALWAYS_ALLOW: Final = "AlwaysAllow"
ALWAYS_DENY: Final = "AlwaysDeny"
RBAC: Final = "RBAC"
NODE: Final = "Node"
WEBHOOK: Final = "Webhook"
MODES: Final = (ALWAYS_ALLOW, ALWAYS_DENY, WEBHOOK, RBAC, NODE)
# The name of the webhook that flags configure; other authorizers are named for their types.
DEFAULT_WEBHOOK: Final = "default"
V1: Final = "v1"
V1BETA1: Final = "v1beta1"
FAIL_OPEN: Final = "NoOpinion"
FAIL_CLOSED: Final = "Deny"


class WebhookSettings(NamedTuple):
    """The settings of calls of a webhook; times are in seconds.

    kubeconfig: the path of the file that names it. version: that of the review.
    authorized_ttl_s, unauthorized_ttl_s: how long its decisions are cached; 0: not at all.
    fails_closed: whether the request is denied if the webhook fails, rather than passed to the next
        authorizer.
    conditions: expressions that must all be true for it to be called.
    """

    kubeconfig: str
    authorized_ttl_s: float = 300.0
    unauthorized_ttl_s: float = 30.0
    timeout_s: float = 30.0
    version: str = V1BETA1
    fails_closed: bool = False
    conditions: tuple[str, ...] = ()


class ConfiguredAuthorizer(NamedTuple):
    """A configured authorizer. webhook: set for the type Webhook."""

    type: str
    name: str
    webhook: WebhookSettings | None = None


def of_modes(
    modes: Sequence[str], webhook: WebhookSettings | None = None
) -> tuple[ConfiguredAuthorizer, ...]:
    """Returns the authorizers that `--authorization-mode` names. webhook: the settings for the mode
    Webhook.
    """
    return tuple(
        ConfiguredAuthorizer(mode, DEFAULT_WEBHOOK, webhook)
        if mode == WEBHOOK
        else ConfiguredAuthorizer(mode, mode.lower())
        for mode in modes
    )
