"""The flags of authentication: client certificates, front proxies and tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.auth.authn.authentication_configuration import SIGNING_ALGORITHMS, AuthenticationConfiguration
from apiserver.auth.authn.request_header import STANDARD_NAMES, RequestHeaderNames
from apiserver.cli import flag_values
from apiserver.cli.flag import Kind, flags_of, option
from apiserver.cli.flag_values import BOOLEAN, DURATION, PATH, SWITCH, TEXT, TEXTS
from apiserver.webhooks.credentials import ClientCredentials
from apiserver.webhooks.kubeconfig import KubeconfigCluster


class AuthenticationFiles(NamedTuple):
    """What authenticates tokens of others. content: that of the file of `--authentication-config`.

    webhook: the server that reviews tokens; None if there is none.
    """

    configuration: AuthenticationConfiguration = AuthenticationConfiguration()
    content: bytes = b""
    webhook: tuple[KubeconfigCluster, ClientCredentials] | None = None


@dataclass(frozen=True, slots=True, repr=False)
class AuthenticationOptions:
    """The options of authentication."""

    client_ca_file: Path | None = option(
        None,
        PATH,
        "A file that contains CA certificates. The server accepts a client certificate signed by one of "
        "these CAs, and uses the certificate's CommonName as the user name. The server always accepts client "
        "certificates signed by the CA in --data-dir.",
    )
    # None: the CA of front proxies that is in the data directory, or shared by replicas.
    requestheader_client_ca_file: Path | None = option(
        None,
        PATH,
        "The root certificate bundle used to verify the client certificates of front proxies, which send "
        "user names in headers. If the flag is not set, the server creates a CA in --data-dir. All replicas "
        "share the CA that the server creates.",
    )
    requestheader_allowed_names: tuple[str, ...] = option(
        (),
        TEXTS,
        "A comma-separated list of common names. Clients whose certificates have one of these common names "
        "can provide user names in headers. If the list is empty, the server accepts all client "
        "certificates signed by a CA in --requestheader-client-ca-file.",
        repeats=True,
    )
    requestheader_username_headers: tuple[str, ...] = option(
        STANDARD_NAMES.users,
        TEXTS,
        "A comma-separated list of request headers to inspect for user names. The server uses the first "
        "listed header that the request contains.",
    )
    requestheader_uid_headers: tuple[str, ...] = option(
        STANDARD_NAMES.uids,
        TEXTS,
        "A comma-separated list of request headers to inspect for UIDs. The server uses the first listed "
        "header that the request contains.",
    )
    requestheader_group_headers: tuple[str, ...] = option(
        STANDARD_NAMES.groups,
        TEXTS,
        "A comma-separated list of request headers to inspect for groups.",
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = option(
        STANDARD_NAMES.extra_prefixes,
        TEXTS,
        "A comma-separated list of request header prefixes to inspect for extra user information.",
    )
    # What extension servers are shown; None: the certificate of a front proxy in the data directory.
    proxy_client_cert_file: Path | None = option(
        None,
        PATH,
        "A file that contains the client certificate that this server uses to authenticate to extension API "
        "servers. Extension API servers verify the certificate with the CAs in "
        "--requestheader-client-ca-file. If the flag is not set, the server creates a certificate in "
        "--data-dir.",
    )
    proxy_client_key_file: Path | None = option(
        None, PATH, "A file that contains the private key for the certificate in --proxy-client-cert-file."
    )
    token_auth_file: Path | None = option(
        None,
        PATH,
        "A file that contains static bearer tokens for authenticating requests. Each line has the form "
        'token,user,uid,"group1,group2".',
    )
    enable_bootstrap_token_auth: bool = option(
        False,
        SWITCH,
        "If true, clients can authenticate with bootstrap tokens. A bootstrap token is a Secret of type "
        "'bootstrap.kubernetes.io/token' in the 'kube-system' namespace.",
    )
    anonymous_auth: bool = option(
        True,
        BOOLEAN,
        "If true, the server accepts anonymous requests. A request is anonymous if no authentication method "
        "accepts or rejects it. Anonymous requests have a user name of system:anonymous and a group name of "
        "system:unauthenticated.",
    )
    authentication_config: Path | None = option(
        None,
        PATH,
        "A file that contains an AuthenticationConfiguration, which lists the accepted JSON Web Token "
        "issuers and the paths that accept anonymous requests. The server reloads the file when it changes. "
        "You cannot combine this flag with flags that begin with --oidc.",
    )
    oidc_issuer_url: str = option(
        "",
        TEXT,
        "The URL of the OpenID issuer. The URL must use the https scheme. If this flag is set, the server "
        "accepts JSON Web Tokens (JWTs) from this issuer.",
    )
    oidc_client_id: str = option(
        "",
        TEXT,
        "The client ID for the OpenID Connect client. If --oidc-issuer-url is set, this flag is required.",
    )
    oidc_ca_file: Path | None = option(
        None,
        PATH,
        "A file that contains the CA certificates used to verify the OpenID server. If the flag is not set, "
        "the server uses the host's root CAs.",
    )
    oidc_username_claim: str = option(
        "sub",
        TEXT,
        "The OpenID claim to use as the user name. Claims other than the default are not guaranteed to be "
        "unique and immutable.",
    )
    oidc_username_prefix: str = option(
        "",
        TEXT,
        "The prefix for all OpenID user names. If the flag is not set, the server adds the issuer URL as a "
        "prefix to user names from claims other than 'email'. To disable the prefix, set this flag to '-'.",
    )
    oidc_groups_claim: str = option(
        "",
        TEXT,
        "The OpenID claim that contains the user's groups. The value of the claim must be a string or an "
        "array of strings.",
    )
    oidc_groups_prefix: str = option(
        "",
        TEXT,
        "The prefix for all OpenID group names. The prefix prevents conflicts with groups from other "
        "authentication methods.",
    )
    oidc_signing_algs: tuple[str, ...] = option(
        ("RS256",),
        Kind("strings", flag_values.signing_algorithms),
        "A comma-separated list of the allowed JOSE asymmetric signing algorithms. The server rejects JWTs "
        f"with any other value in the 'alg' header. Supported values: {', '.join(SIGNING_ALGORITHMS)}.",
        repeats=True,
    )
    # Of each claim, the last value counts.
    oidc_required_claim: tuple[tuple[str, str], ...] = option(
        (),
        Kind("mapStringString", flag_values.required_claim),
        "A key=value pair that describes a required claim. The server accepts an ID token only if it "
        "contains the claim with this value. Repeat this flag to specify multiple claims.",
        repeats=True,
        is_list=False,
    )
    authentication_token_webhook_config_file: Path | None = option(
        None,
        PATH,
        "A kubeconfig file that configures the token authentication webhook. The server calls this webhook "
        "to authenticate bearer tokens.",
    )
    authentication_token_webhook_version: str = option(
        "v1beta1",
        TEXT,
        "The API version of the TokenReview objects that the server and the webhook exchange.",
        choices=("v1", "v1beta1"),
    )
    authentication_token_webhook_cache_ttl_s: float = option(
        120.0,
        DURATION,
        "How long the server caches responses from the token authentication webhook.",
    )
    # The first issues service account tokens; those of all of them are accepted.
    service_account_issuer: tuple[str, ...] = option(
        ("https://kubernetes.default.svc",),
        Kind("string", flag_values.texts),
        "The identifier of the service account token issuer. If this flag is set multiple times, the server "
        "uses the first issuer to generate tokens, and accepts tokens from all listed issuers.",
        repeats=True,
    )
    service_account_signing_key_file: Path | None = option(
        None,
        PATH,
        "The path to the file that contains the private key of the service account token issuer. If the "
        "flag is not set, the server generates a key in --data-dir.",
    )
    service_account_key_file: tuple[Path, ...] = option(
        (),
        Kind("strings", flag_values.paths),
        "A file that contains PEM-encoded private or public RSA or ECDSA keys, or certificates that contain "
        "such keys. The server verifies service account tokens with these keys and with the signing key. "
        "The file can contain multiple keys, and you can set the flag multiple times with different files.",
        repeats=True,
    )
    service_account_max_token_expiration_s: int = option(
        0,
        Kind("duration", flag_values.whole_duration_or_zero_s),
        "The maximum validity period of a token that the service account token issuer creates. 0 means no "
        "maximum.",
    )
    service_account_extend_token_expiration: bool = option(
        True,
        BOOLEAN,
        "If true, the server extends the expiration of projected service account tokens. The extension makes "
        "the transition from legacy tokens to bound tokens safer. The server extends a token only if the "
        "token is bound to a pod and the requested lifetime is 3607 seconds, which is the lifetime that "
        "kubelets request. The server accepts an extended token for a year, but reports the token as stale "
        "after 3607 seconds.",
    )
    service_account_lookup: bool = option(
        True,
        BOOLEAN,
        "If true, the server accepts a service account token from a Secret only while the Secret exists.",
    )
    service_account_jwks_uri: str = option(
        "",
        Kind("string", flag_values.https_url),
        "The JSON Web Key Set URI in the OpenID discovery document. By default, the URI points to this "
        "server.",
    )
    api_audiences: tuple[str, ...] = option(
        (),
        TEXTS,
        "The audiences that identify this API server. A service account token must be bound to at least one "
        "of these audiences. The default is the list of issuers in --service-account-issuer.",
        repeats=True,
    )
    # What is in these files and flags.
    files: AuthenticationFiles = field(default_factory=AuthenticationFiles)

    @property
    def request_header_names(self) -> RequestHeaderNames:
        return RequestHeaderNames(
            self.requestheader_username_headers,
            self.requestheader_uid_headers,
            self.requestheader_group_headers,
            self.requestheader_extra_headers_prefix,
        )


FLAGS: Final = flags_of(AuthenticationOptions)
