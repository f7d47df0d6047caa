"""Builds authentication, authorization and the tokens of service accounts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from apiserver.app.authentication import Authentication, ForeignTokens, build_authentication
from apiserver.app.background import BackgroundTask
from apiserver.app.core import Core
from apiserver.app.serving.server_keys import ServerKeys
from apiserver.app.serving.service_account_tokens import (
    ServiceAccountTokens,
    extension_tokens,
    object_getter,
    service_account_tokens,
)
from apiserver.app.serving.serving_tls import ServingTls
from apiserver.auth.authn.peer_certificates import PeerCertificates
from apiserver.auth.authz.authorizer_modes import Authorizers
from apiserver.controllers.legacy_token_uses import LegacyTokenUses


class Access(NamedTuple):
    """The authentication and authorization of callers, and the parts that keep them current."""

    accounts: ServiceAccountTokens
    certificates: PeerCertificates
    authentication: Authentication
    authorizers: Authorizers


def build_access(
    core: Core, keys: ServerKeys, tls: ServingTls, foreign: ForeignTokens, authorizers: Authorizers
) -> Access:
    """Build authentication around the tokens of service accounts. Raises CannotStart."""
    config = core.config
    uses = LegacyTokenUses(core.registry, core.served, foreign.metrics, core.clock)
    accounts = service_account_tokens(
        config, keys.tokens, object_getter(core.registry, core.served), core.clock, uses
    )
    of_extensions = extension_tokens(config, keys.tokens) if core.extensions else None
    peers = _peer_certificates(tls, f"authentication.{core.brand.vendor}.io", core.clock)
    authentication = build_authentication(core, accounts, foreign, of_extensions, peers)
    return Access(
        accounts,
        peers,
        authentication._replace(tasks=(BackgroundTask("legacy-token-uses", uses.run), *authentication.tasks)),
        authorizers,
    )


def _peer_certificates(tls: ServingTls, extra_prefix: str, clock: Callable[[], float]) -> PeerCertificates:
    content = tls.content
    found = PeerCertificates(content.all_client_cas, content.front_proxy_cas, extra_prefix, clock)
    tls.subscribe(lambda content: found.trust(content.all_client_cas, content.front_proxy_cas))
    return found
