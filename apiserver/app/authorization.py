"""Builds authorization, as flags or an AuthorizationConfiguration say, whose file may change meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from apiserver.app.core import Core
from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.watched_files import WatchedFiles, read_file
from apiserver.auth.authz.attributes import Authorizer
from apiserver.auth.authz.authorizer_modes import Authorizers
from apiserver.auth.authz.configuration import (
    ALWAYS_ALLOW,
    ALWAYS_DENY,
    RBAC,
    WEBHOOK,
    ConfiguredAuthorizer,
    WebhookSettings,
)
from apiserver.cli.authorization_configuration import parse_authorization_configuration
from apiserver.endpoints.authorization_recheck import AuthorizationRecheck
from apiserver.load.shared_pool import SharedPool, holder_of
from apiserver.metrics.authorization import AuthorizationMetrics
from apiserver.webhooks.authorizer import WAITING_MAX, AuthorizationWebhook, WebhookAuthorizer
from apiserver.webhooks.credentials import ClientCredentials
from apiserver.webhooks.kubeconfig import KubeconfigCluster, read_server
from apiserver.webhooks.review_server import CallerFactory, ReviewServer
from apiserver.wire.configuration_fields import InvalidConfiguration
from storage.turns import Turn

log = logging.getLogger(__name__)

# By the name of an authorizer: the server that it asks, and what that is shown.
_Servers: TypeAlias = Mapping[str, tuple[KubeconfigCluster, ClientCredentials]]


def build_authorizers(
    core: Core,
    has_default_roles: Callable[[], bool],
    caller_with: CallerFactory,
    metrics: AuthorizationMetrics,
) -> Authorizers:
    """Build the configured authorizers. caller_with: makes clients of webhooks. Raises CannotStart."""
    configured = core.config.authorization.authorizers
    try:
        servers = _servers(configured)
    except (InvalidConfiguration, OSError) as error:
        raise CannotStart(f"an authorization webhook cannot be configured: {error}") from None
    made = _Webhooks(core, caller_with, metrics)
    authorizers = Authorizers(
        configured,
        core.brand,
        has_default_roles,
        partial(made.authorizer, servers),
        Turn,
        core.config.gates,
    )
    metrics.counts = lambda: authorizers.counts
    return authorizers


def build_authorization_reload(
    core: Core, authorizers: Authorizers, caller_with: CallerFactory, metrics: AuthorizationMetrics
) -> WatchedFiles | None:
    """Returns what has the authorizers replaced when their file changes; None if flags configure them."""
    config = core.config
    path = config.authorization.authorization_config
    if path is None:
        return None
    made = _Webhooks(core, caller_with, metrics)
    # What RBAC and Node know is kept for as long as the server runs, and by others than authorizers.
    needed = {each.type for each in config.authorization.authorizers} - {WEBHOOK}

    async def apply(contents: Sequence[bytes]) -> None:
        """Replace the authorizers. Raises InvalidConfiguration, OSError, NotEnabledAtStart."""
        (content,) = contents
        configured, servers = await asyncio.to_thread(_read, content)
        authorizers.configure(configured, partial(made.authorizer, servers))
        metrics.configuration.configured(content)

    def _read(content: bytes) -> tuple[Sequence[ConfiguredAuthorizer], _Servers]:
        configured = parse_authorization_configuration(
            content, core.brand, needed, has_selectors=config.gates.is_on("AuthorizeWithSelectors")
        )
        return configured, _servers(configured)

    metrics.configuration.configured(config.authorization.authorization_config_content)
    return WatchedFiles(
        "the authorization configuration",
        [path],
        [config.authorization.authorization_config_content],
        apply,
        observe=metrics.configuration.reloaded,
    )


def build_authorization_recheck(core: Core, authorizers: Authorizers) -> AuthorizationRecheck | None:
    interval_s = core.config.authorization.authorization_recheck_interval_s
    if not interval_s:
        return None
    chain, policy = authorizers.chain, authorizers.rbac_policy

    def stamp() -> object:
        # What nodes and webhooks would answer cannot be told without asking them.
        if not {each.type for each in authorizers.configured} <= {RBAC, ALWAYS_ALLOW, ALWAYS_DENY}:
            return object()
        return chain.generation, policy.generation if policy is not None else 0

    return AuthorizationRecheck(chain, core.streams, stamp, interval_s)


class _Webhooks:
    """Makes the authorizers that ask webhooks."""

    def __init__(self, core: Core, caller_with: CallerFactory, metrics: AuthorizationMetrics) -> None:
        self._group = core.brand.group("authorization")
        self._caller_with, self._metrics = caller_with, metrics
        self._monotonic = core.registry.clock.monotonic

    def authorizer(self, servers: _Servers, name: str, settings: WebhookSettings) -> Authorizer:
        server = ReviewServer(*servers[name], self._caller_with)
        places = SharedPool(WAITING_MAX)
        webhook = AuthorizationWebhook(name, settings, server, self._group)
        return WebhookAuthorizer(webhook, self._metrics, places, holder_of, self._monotonic)


def _servers(configured: Sequence[ConfiguredAuthorizer]) -> _Servers:
    """Raises InvalidConfiguration, OSError."""
    found = {}
    for each in configured:
        if each.webhook is not None:
            path = Path(each.webhook.kubeconfig)
            found[each.name] = read_server(path, read_file)
    return found
