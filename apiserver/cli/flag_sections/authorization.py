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
        "Ordered list of plug-ins to do authorization on secure port. Comma-delimited list of: "
        f"{','.join(MODES)}.",
    )
    # Instead of the modes; what is in the file, as bytes and parsed.
    authorization_config: Path | None = option(
        None,
        PATH,
        "File with authorization configuration, an object of the kind AuthorizationConfiguration: the "
        "authorizers in their order. The server reloads it when it changes. Cannot be combined with the "
        "flags for modes and for the authorization webhook.",
    )
    # 0: watches are not authorized again.
    authorization_recheck_interval_s: float = option(
        60.0,
        DURATION,
        "How often the server checks whether users are still allowed to watch. It ends a watch that is no "
        "longer allowed. 0 lets watches continue until they time out, as in kube-apiserver.",
    )
    authorization_webhook_config_file: Path | None = option(
        None,
        PATH,
        "File with webhook configuration in kubeconfig format, used with --authorization-mode=Webhook. The "
        "server will ask the remote service whether requests are allowed.",
    )
    authorization_webhook_version: str = option(
        V1BETA1,
        Kind("string", flag_values.access_review_version),
        "The API version of the authorization.k8s.io SubjectAccessReview to send to and expect from the "
        "webhook.",
    )
    authorization_webhook_cache_authorized_ttl_s: float = option(
        300.0,
        DURATION,
        "The duration to cache 'authorized' responses from the webhook authorizer.",
    )
    authorization_webhook_cache_unauthorized_ttl_s: float = option(
        30.0,
        DURATION,
        "The duration to cache 'unauthorized' responses from the webhook authorizer.",
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
