"""Reads who authenticates the tokens of others: in files, or with `--oidc-*` flags."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from apiserver.auth.authn import authentication_configuration
from apiserver.auth.authn.authentication_configuration import (
    AuthenticationConfiguration,
    ClaimMapping,
    Issuer,
)
from apiserver.cli.argument_parser import UsageError, one_line
from apiserver.cli.bounded_files import read_bounded
from apiserver.cli.config import Config
from apiserver.cli.flag_sections.authentication import AuthenticationFiles
from apiserver.webhooks.credentials import ClientCredentials
from apiserver.webhooks.kubeconfig import KubeconfigCluster, read_server
from apiserver.wire.configuration_fields import InvalidConfiguration

_OIDC: Final = "oidc_"


def read_authentication(config: Config, given: Collection[str]) -> AuthenticationFiles:
    """Read who authenticates tokens of others. given: the fields that flags have set. Raises UsageError."""
    options = config.authentication
    has_oidc = any(name.startswith(_OIDC) for name in given)
    path = options.authentication_config
    if path is not None and has_oidc:
        raise UsageError("--authentication-config and --oidc-* flags are mutually exclusive")
    if has_oidc and not (options.oidc_issuer_url and options.oidc_client_id):
        raise UsageError(
            "--oidc-issuer-url and --oidc-client-id must be specified together when any --oidc-* flags "
            "are set"
        )
    configuration, content = AuthenticationConfiguration(), b""
    if path is not None:
        content = _content("authentication-config", path)
        try:
            configuration = parse_file(config, content)
        except InvalidConfiguration as error:
            raise UsageError(f"--authentication-config: {path}: {one_line(error)}") from None
        if configuration.anonymous is not None and "anonymous_auth" in given:
            raise UsageError(
                "--anonymous-auth cannot be set if the file of --authentication-config has the field "
                "anonymous"
            )
    elif has_oidc:
        configuration = _of_flags(config)
    return AuthenticationFiles(configuration, content, _webhook(config))


def parse_file(config: Config, content: bytes) -> AuthenticationConfiguration:
    """Returns the configuration that a file's content describes. Raises InvalidConfiguration."""
    return authentication_configuration.parse(
        content, config.brand.group_domain, config.authentication.service_account_issuer
    )


def _of_flags(config: Config) -> AuthenticationConfiguration:
    """Returns the configuration of the issuer that flags name. Raises UsageError."""
    options = config.authentication
    authorities = b""
    if options.oidc_ca_file is not None:
        authorities = _content("oidc-ca-file", options.oidc_ca_file)
        if not authorities:  # which would stand for those of the system
            raise UsageError(f"--oidc-ca-file: {options.oidc_ca_file} contains no certificate")
    try:
        return authentication_configuration.of_flags(
            Issuer(
                options.oidc_issuer_url,
                (options.oidc_client_id,),
                authorities=authorities.decode("utf-8", "replace"),
            ),
            username=ClaimMapping(options.oidc_username_claim, options.oidc_username_prefix),
            groups=ClaimMapping(options.oidc_groups_claim, options.oidc_groups_prefix),
            required_claims=tuple(dict(options.oidc_required_claim).items()),
            algorithms=options.oidc_signing_algs,
            disallowed_issuers=options.service_account_issuer,
        )
    except InvalidConfiguration as error:
        raise UsageError(f"--oidc-issuer-url, --oidc-ca-file: {one_line(error)}") from None


def _webhook(config: Config) -> tuple[KubeconfigCluster, ClientCredentials] | None:
    """Read which server reviews tokens. Raises UsageError."""
    flag, path = (
        "authentication-token-webhook-config-file",
        config.authentication.authentication_token_webhook_config_file,
    )
    if path is None:
        return None
    try:
        return read_server(path, read_bounded)
    except (InvalidConfiguration, OSError) as error:
        raise UsageError(f"--{flag}: {one_line(error)}") from None


def _content(flag: str, path: Path) -> bytes:
    """Read the file of a flag. Raises UsageError."""
    try:
        return read_bounded(path)
    except OSError as error:
        raise UsageError(f"--{flag}: cannot read {path}: {error.strerror or error}") from None
