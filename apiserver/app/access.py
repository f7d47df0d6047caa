"""Builds authentication, authorization and the tokens of service accounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from apiserver.app.core import Core
from apiserver.authn import client_cert
from apiserver.authn.chain import NO_CERTIFICATE, AuthenticationChain, Credentials
from apiserver.authn.peer_certificates import PeerCertificates
from apiserver.authn.request_header import RequestHeaderAuthenticator
from apiserver.authn.token_file import TokenFileAuthenticator, TokenFileError, read_token_file
from apiserver.authn.token_review import TokenReviewer
from apiserver.authz.authorizer_modes import Authorizers, build_authorizers
from apiserver.catalogue.rbac.roles import GROUP as RBAC_GROUP
from apiserver.cli.config import Config
from apiserver.serving import pki
from apiserver.serving.listening import CannotStart, client_cas, front_proxy_cas, front_proxy_names
from apiserver.serving.service_account_tokens import (
    ServiceAccountTokens,
    object_getter,
    service_account_tokens,
)
from apiserver.vocabulary import UserInfo


@dataclass(frozen=True, slots=True)
class Access:
    """How callers are authenticated and authorized. reviewer: answers TokenReviews."""

    accounts: ServiceAccountTokens
    certificates: PeerCertificates
    authentication: AuthenticationChain
    reviewer: TokenReviewer
    authorizers: Authorizers


def build_access(core: Core, certificates: pki.Pki, rbac_is_ready: Callable[[], bool]) -> Access:
    """rbac_is_ready: whether the default roles are stored. Raises CannotStart."""
    config = core.config
    accounts = service_account_tokens(
        config, certificates, object_getter(core.registry, core.served), core.clock
    )
    authentication = _authentication(config, accounts)
    return Access(
        accounts,
        _peer_certificates(config, certificates),
        authentication,
        TokenReviewer(authentication, accounts.authenticator, accounts.audiences),
        build_authorizers(config.authorization_mode, core.brand.group(RBAC_GROUP), rbac_is_ready),
    )


def _peer_certificates(config: Config, certificates: pki.Pki) -> PeerCertificates:
    """Raises CannotStart."""
    try:
        return PeerCertificates(client_cas(config, certificates), front_proxy_cas(config, certificates))
    except ValueError as error:
        raise CannotStart(f"the CAs of clients cannot be used: {error}") from None


def _authentication(config: Config, accounts: ServiceAccountTokens) -> AuthenticationChain:
    users: Mapping[bytes, UserInfo] = {}
    if config.token_auth_file is not None:
        try:
            users = read_token_file(config.token_auth_file)
        except (OSError, TokenFileError) as error:
            raise CannotStart(f"--token-auth-file: {error}") from None
    front_proxies = RequestHeaderAuthenticator(config.request_header_names, front_proxy_names(config))

    def by_certificate(credentials: Credentials) -> UserInfo | None:
        if credentials.certificate is NO_CERTIFICATE:  # as of most clients
            return None
        return front_proxies(credentials) or client_cert.authenticate(credentials)

    authenticators = (
        by_certificate,
        accounts.authenticator,
        TokenFileAuthenticator(users),  # It refuses a token that no authenticator knows.
    )
    return AuthenticationChain(authenticators, allows_anonymous=config.anonymous_auth)
