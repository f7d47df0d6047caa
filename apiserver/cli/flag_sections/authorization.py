"""The flags of authorization: the modes, their file, and the webhook."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apiserver.auth.authz.configuration import (
    MODES,
    RBAC,
    V1BETA1,
    ConfiguredAuthorizer,
    WebhookSettings,
    of_modes,
)
from apiserver.cli import flag_values
from apiserver.cli.flag import Kind, flags_of, option
from apiserver.cli.flag_values import DURATION, PATH


@dataclass(frozen=True, slots=True, repr=False)
class AuthorizationOptions:
    """The options of authorization."""

    authorization_mode: tuple[str, ...] = option(
        (RBAC,),
        Kind("strings", flag_values.modes),
        "A comma-separated list of authorizers. The server consults the authorizers in the listed order. "
        f"Possible values: {','.join(MODES)}.",
    )
    # Instead of the modes; what is in the file, as bytes and parsed.
    authorization_config: Path | None = option(
        None,
        PATH,
        "A file that contains an AuthorizationConfiguration, which is an ordered list of authorizers. The "
        "server reloads the file when it changes. You cannot combine this flag with --authorization-mode or "
        "with flags that begin with --authorization-webhook.",
    )
    # 0: watches are not authorized again.
    authorization_recheck_interval_s: float = option(
        60.0,
        DURATION,
        "The interval at which the server checks whether the users of open watches are still authorized. "
        "The server ends a watch whose user is no longer authorized. If the interval is 0, the server "
        "behaves like kube-apiserver: watches continue until they time out.",
    )
    authorization_webhook_config_file: Path | None = option(
        None,
        PATH,
        "A kubeconfig file that configures the authorization webhook. If --authorization-mode contains "
        "Webhook, the server calls this webhook to authorize requests.",
    )
    authorization_webhook_version: str = option(
        V1BETA1,
        Kind("string", flag_values.access_review_version),
        "The API version of the SubjectAccessReview objects that the server and the webhook exchange.",
    )
    authorization_webhook_cache_authorized_ttl_s: float = option(
        300.0,
        DURATION,
        "How long the server caches 'authorized' responses from the authorization webhook.",
    )
    authorization_webhook_cache_unauthorized_ttl_s: float = option(
        30.0,
        DURATION,
        "How long the server caches 'unauthorized' responses from the authorization webhook.",
    )
    authorization_config_content: bytes = b""
    authorization_config_authorizers: tuple[ConfiguredAuthorizer, ...] = ()

    @property
    def authorizers(self) -> tuple[ConfiguredAuthorizer, ...]:
        """The authorizers, in the order in which they are asked."""
        if self.authorization_config is not None:
            return self.authorization_config_authorizers
        webhook = None
        if self.authorization_webhook_config_file is not None:
            webhook = WebhookSettings(
                kubeconfig=str(self.authorization_webhook_config_file),
                authorized_ttl_s=self.authorization_webhook_cache_authorized_ttl_s,
                unauthorized_ttl_s=self.authorization_webhook_cache_unauthorized_ttl_s,
                version=self.authorization_webhook_version,
            )
        return of_modes(self.authorization_mode, webhook)


FLAGS: Final = flags_of(AuthorizationOptions)
