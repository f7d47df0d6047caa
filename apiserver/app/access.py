"""Builds authentication, authorization and the tokens of service accounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from apiserver.app.core import Core
from apiserver.authn import client_cert
from apiserver.authn.chain import AuthenticationChain
from apiserver.authn.token_file import TokenFileAuthenticator, TokenFileError, read_token_file
from apiserver.authn.token_review import TokenReviewer
from apiserver.authz.authorizer_modes import Authorizers, build_authorizers
from apiserver.catalogue.rbac.roles import GROUP as RBAC_GROUP
from apiserver.cli.config import Config
from apiserver.serving import pki
from apiserver.serving.listening import CannotStart
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
        authentication,
        TokenReviewer(authentication, accounts.authenticator, accounts.audiences),
        build_authorizers(config.authorization_mode, core.brand.group(RBAC_GROUP), rbac_is_ready),
    )


def _authentication(config: Config, accounts: ServiceAccountTokens) -> AuthenticationChain:
    users: Mapping[bytes, UserInfo] = {}
    if config.token_auth_file is not None:
        try:
            users = read_token_file(config.token_auth_file)
        except (OSError, TokenFileError) as error:
            raise CannotStart(f"--token-auth-file: {error}") from None
    # The last one refuses a token that no authenticator knows.
    authenticators = (client_cert.authenticate, accounts.authenticator, TokenFileAuthenticator(users))
    return AuthenticationChain(authenticators, allows_anonymous=config.anonymous_auth)
