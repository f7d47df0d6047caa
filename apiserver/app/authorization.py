"""Builds authorization from flags or an AuthorizationConfiguration file, which is reloaded when it
changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from apiserver.app.background import BackgroundTask
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
from apiserver.controllers.node_graph import NodeGraphInformer
from apiserver.controllers.rbac_policy import RbacPolicyInformer
from apiserver.endpoints.authorization_recheck import AuthorizationRecheck
from apiserver.extensions.hooks import Kind
from apiserver.load.user_shares import SharedPool, holder_of
from apiserver.storage.event_loop_turns import Turn
from apiserver.webhooks.authorizer import WAITING_MAX, AuthorizationWebhook, WebhookAuthorizer
from apiserver.webhooks.credentials import ClientCredentials
from apiserver.webhooks.kubeconfig import KubeconfigCluster, read_server
from apiserver.webhooks.review_server import CallerFactory, ReviewServer
from apiserver.wire.configuration_fields import InvalidConfiguration

log = logging.getLogger(__name__)

# By the name of an authorizer: the server that it asks, and what that is shown.
_Servers: TypeAlias = Mapping[str, tuple[KubeconfigCluster, ClientCredentials]]


def build_authorizers(
    core: Core, has_default_roles: Callable[[], bool], caller_with: CallerFactory
) -> Authorizers:
    """Build the configured authorizers. caller_with: makes clients of webhooks. Raises CannotStart."""
    configured = core.config.authorization.authorizers
    try:
        servers = _servers(configured)
    except (InvalidConfiguration, OSError) as error:
        raise CannotStart(f"an authorization webhook cannot be configured: {error}") from None
    authorizers = Authorizers(
        configured,
        core.brand,
        has_default_roles,
        partial(_webhook_authorizer, core, caller_with, servers),
        Turn,
        core.config.gates,
    )
    if core.extensions:
        core.extensions.call_on_change(partial(_add_extensions, core, authorizers))
    core.metrics.authorization.counts = lambda: authorizers.counts
    return authorizers


def _add_extensions(core: Core, authorizers: Authorizers) -> None:
    from apiserver.extensions.host.access import HookAuthorizer

    authorizers.extend([HookAuthorizer(each) for each in core.extensions.of_kind(Kind.AUTHORIZE)])


def authorization_tasks(
    core: Core, authorizers: Authorizers, caller_with: CallerFactory, roles: RbacPolicyInformer | None
) -> Iterator[BackgroundTask]:
    """Yields the tasks that keep authorizers up to date, and end watches of users who lose their permission.

    roles: the informer of RBAC objects, if the authorizer RBAC is enabled.
    """
    if roles is not None:
        yield BackgroundTask("rbac-policy", roles.run)
    if core.config.authorization.authorization_recheck_interval_s:
        yield BackgroundTask("authorization-recheck", _recheck(core, authorizers).run)
    if (path := core.config.authorization.authorization_config) is not None:
        reload = _reload(core, authorizers, caller_with, path)
        yield BackgroundTask("authorization-config", reload.run)
    if (graph := authorizers.node_graph) is not None:
        table, metrics = core.served.current, core.metrics.node_graph
        nodes = NodeGraphInformer(core.registry, table, core.brand, graph, metrics)
        yield BackgroundTask("node-graph", nodes.run)


def _reload(core: Core, authorizers: Authorizers, caller_with: CallerFactory, path: Path) -> WatchedFiles:
    """Returns the watcher that replaces the authorizers when their file changes."""
    config, metrics = core.config, core.metrics.authorization
    # What RBAC and Node know is kept for as long as the server runs, and by others than authorizers.
    needed = {each.type for each in config.authorization.authorizers} - {WEBHOOK}

    async def apply(contents: Sequence[bytes]) -> None:
        """Replace the authorizers. Raises InvalidConfiguration, OSError, NotEnabledAtStart."""
        (content,) = contents
        configured, servers = await asyncio.to_thread(_read, content)
        authorizers.configure(configured, partial(_webhook_authorizer, core, caller_with, servers))
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


def _recheck(core: Core, authorizers: Authorizers) -> AuthorizationRecheck:
    chain, policy = authorizers.chain, authorizers.rbac_policy

    def stamp() -> object:
        # Asking nodes, webhooks and extensions is the only way to learn their decision.
        if authorizers.extensions or not {each.type for each in authorizers.configured} <= {
            RBAC,
            ALWAYS_ALLOW,
            ALWAYS_DENY,
        }:
            return object()
        return chain.generation, policy.generation if policy is not None else 0

    interval_s = core.config.authorization.authorization_recheck_interval_s
    return AuthorizationRecheck(chain, core.streams, stamp, interval_s)


def _webhook_authorizer(
    core: Core, caller_with: CallerFactory, servers: _Servers, name: str, settings: WebhookSettings
) -> Authorizer:
    server = ReviewServer(*servers[name], caller_with)
    webhook = AuthorizationWebhook(name, settings, server, core.brand.group("authorization"))
    places, monotonic = SharedPool(WAITING_MAX), core.registry.clock.monotonic
    return WebhookAuthorizer(webhook, core.metrics.authorization, places, holder_of, monotonic)


def _servers(configured: Sequence[ConfiguredAuthorizer]) -> _Servers:
    """Read the server of each authorization webhook. Raises InvalidConfiguration, OSError."""
    found = {}
    for each in configured:
        if each.webhook is not None:
            path = Path(each.webhook.kubeconfig)
            found[each.name] = read_server(path, read_file)
    return found
