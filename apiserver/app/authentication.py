"""Builds authentication: by certificate, by this server's tokens, and by those of other issuers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from apiserver.app.background import BackgroundTask
from apiserver.app.core import Core
from apiserver.app.serving.listening import CannotStart, front_proxy_names
from apiserver.app.serving.service_account_tokens import ServiceAccountTokens, object_getter
from apiserver.app.serving.watched_files import WatchedFiles
from apiserver.auth.authn.bearer_tokens import BearerTokens, TokenAuthenticator
from apiserver.auth.authn.bootstrap_tokens import BootstrapTokenAuthenticator
from apiserver.auth.authn.chain import Anonymous, AuthenticationChain
from apiserver.auth.authn.client_cert import ClientCertificateAuthenticator
from apiserver.auth.authn.console_tokens import ConsoleTokens
from apiserver.auth.authn.discovery_documents import Fetch
from apiserver.auth.authn.extension_tokens import ExtensionTokens
from apiserver.auth.authn.peer_certificates import PeerCertificates
from apiserver.auth.authn.request_header import RequestHeaderAuthenticator
from apiserver.auth.authn.token_cache import SUCCESS_TTL_S, TokenCache
from apiserver.auth.authn.token_file import TokenFileAuthenticator, TokenFileError, read_token_file
from apiserver.cli.authentication_files import parse_file
from apiserver.cli.config import Config
from apiserver.extensions.hooks import Kind as HookKind
from apiserver.meta.vocabulary import UserInfo
from apiserver.metrics.authentication import AuthenticationMetrics
from apiserver.webhooks.review_server import CallerFactory, ReviewServer
from apiserver.webhooks.token_reviews import TokenReviews

if TYPE_CHECKING:
    from apiserver.auth.authn.configured_issuers import ConfiguredIssuers


class ForeignTokens(NamedTuple):
    """The clients that authentication by foreign tokens needs.

    fetch: gets documents of identity providers. caller_with: makes clients of webhooks.
    """

    fetch: Fetch
    caller_with: CallerFactory
    metrics: AuthenticationMetrics


class Authentication(NamedTuple):
    """The authenticators of requests, and the tasks that keep them up to date.

    console_tokens: None without a console. issuers: None if no foreign tokens are accepted.
    """

    chain: AuthenticationChain
    tokens: BearerTokens
    tasks: Sequence[BackgroundTask]
    console_tokens: ConsoleTokens | None
    issuers: ConfiguredIssuers | None


def build_authentication(
    core: Core,
    accounts: ServiceAccountTokens,
    foreign: ForeignTokens,
    extensions: ExtensionTokens | None,
    certificates: PeerCertificates,
) -> Authentication:
    """Build the authenticators. extensions: that of extensions, if there are any. certificates: verifies
    those of clients. Raises CannotStart.
    """
    config, files = core.config, core.config.authentication.files
    others: list[TokenAuthenticator] = []
    console_tokens = issuers = None
    if config.has_console:
        # First, so that no other authenticator gets these tokens, as webhooks would.
        console_tokens = ConsoleTokens(
            accounts.issuer.derived_key, accounts.audiences, certificates.trusts_users_of, core.clock
        )
        others.append(console_tokens)
    if extensions is not None:
        others.append(extensions)
    tasks: list[BackgroundTask] = []
    front_proxies = RequestHeaderAuthenticator(
        config.authentication.request_header_names, front_proxy_names(config), core.clock
    )
    clients = ClientCertificateAuthenticator(core.metrics.certificates.client_expiration.observe, core.clock)

    if config.authentication.enable_bootstrap_token_auth:
        get = object_getter(core.registry, core.served)
        others.append(BootstrapTokenAuthenticator(get, accounts.audiences, core.clock))
    if config.authentication.authentication_config is not None or files.configuration.jwt:
        # Few servers have other issuers, whose keys need `cryptography`.
        from apiserver.auth.authn.configured_issuers import ConfiguredIssuers

        issuers = ConfiguredIssuers(
            files.configuration,
            foreign.fetch,
            foreign.metrics,
            accounts.audiences,
            f"authentication.{core.brand.vendor}.io",
            core.clock,
        )
        # Failures are remembered only where they were costly.
        cache = TokenCache(issuers.look_up, foreign.metrics, core.clock, failure_ttl_s=SUCCESS_TTL_S)
        others.append(cache)
        tasks.append(BackgroundTask("identity-providers", issuers.run))
    if files.webhook is not None:
        others.append(_webhook(core, accounts.audiences, foreign))
    tokens = BearerTokens(_token_file(config), accounts.authenticator, others, accounts.audiences)
    if core.extensions:
        core.extensions.call_on_change(partial(_add_extensions, core, tokens, accounts, foreign))
    anonymous = _anonymous(config, files.configuration.anonymous)
    chain = AuthenticationChain((tokens,), anonymous, by_certificate=(front_proxies, clients))
    if config.authentication.authentication_config is not None:
        assert issuers is not None
        reload = _reloading(config, issuers, cache, chain, foreign.metrics)
        tasks.append(BackgroundTask("authentication-config", reload.run))
    return Authentication(chain, tokens, tasks, console_tokens, issuers)


def _add_extensions(
    core: Core, tokens: BearerTokens, accounts: ServiceAccountTokens, foreign: ForeignTokens
) -> None:
    from apiserver.extensions.host.access import HookTokens

    hooks = core.extensions.of_kind(HookKind.AUTHENTICATE)
    lookups = [HookTokens(each, accounts.audiences).look_up for each in hooks]
    tokens.extensions = [TokenCache(each, foreign.metrics, core.clock) for each in lookups]


def _token_file(config: Config) -> TokenFileAuthenticator:
    """Read the file of static tokens. Raises CannotStart."""
    users: Mapping[bytes, UserInfo] = {}
    if config.authentication.token_auth_file is not None:
        try:
            users = read_token_file(config.authentication.token_auth_file)
        except (OSError, TokenFileError) as error:
            raise CannotStart(f"--token-auth-file: {error}") from None
    return TokenFileAuthenticator(users)


def _webhook(core: Core, audiences: Sequence[str], foreign: ForeignTokens) -> TokenCache:
    config = core.config
    assert config.authentication.files.webhook is not None
    cluster, credentials = config.authentication.files.webhook
    group = core.brand.group("authentication")
    reviews = TokenReviews(
        ReviewServer(cluster, credentials, foreign.caller_with),
        f"{group}/{config.authentication.authentication_token_webhook_version}",
        audiences,
    )
    ttl_s = config.authentication.authentication_token_webhook_cache_ttl_s
    return TokenCache(reviews.look_up, foreign.metrics, core.clock, success_ttl_s=ttl_s, failure_ttl_s=ttl_s)


def _anonymous(config: Config, of_file: Anonymous | None) -> Anonymous:
    return Anonymous(config.authentication.anonymous_auth) if of_file is None else of_file


def _reloading(
    config: Config,
    issuers: ConfiguredIssuers,
    cache: TokenCache,
    chain: AuthenticationChain,
    metrics: AuthenticationMetrics,
) -> WatchedFiles:
    path = config.authentication.authentication_config
    assert path is not None

    async def replace(contents: Sequence[bytes]) -> None:
        (content,) = contents
        # In a thread: it compiles expressions.
        configuration = await asyncio.to_thread(parse_file, config, content)
        await issuers.replace(configuration)
        chain.anonymous = _anonymous(config, configuration.anonymous)
        # A user who was authenticated under the former rules may not be under these.
        cache.clear()
        metrics.configuration.configured(content)

    content = config.authentication.files.content
    metrics.configuration.configured(content)
    return WatchedFiles(
        "--authentication-config", [path], [content], replace, observe=metrics.configuration.reloaded
    )
