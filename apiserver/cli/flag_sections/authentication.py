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
        "If set, any request presenting a client certificate signed by one of the authorities in this file "
        "is authenticated with an identity corresponding to the CommonName of the certificate. Certificates "
        "signed by the CA in --data-dir are always accepted.",
    )
    # None: the CA of front proxies that is in the data directory, or shared by replicas.
    requestheader_client_ca_file: Path | None = option(
        None,
        PATH,
        "Root certificate bundle to use to verify client certificates of front proxies, which send user "
        "names in headers. If not provided, the server creates a CA in --data-dir, which replicas share.",
    )
    requestheader_allowed_names: tuple[str, ...] = option(
        (),
        TEXTS,
        "List of client certificate common names to allow to provide usernames in headers, comma separated. "
        "If empty, any client certificate validated by the authorities in --requestheader-client-ca-file is "
        "allowed.",
        repeats=True,
    )
    requestheader_username_headers: tuple[str, ...] = option(
        STANDARD_NAMES.users,
        TEXTS,
        "List of request headers to inspect for usernames, comma separated. The first header in the request"
        " counts.",
    )
    requestheader_uid_headers: tuple[str, ...] = option(
        STANDARD_NAMES.uids,
        TEXTS,
        "List of request headers to inspect for UIDs, comma separated. The first header in the request "
        "counts.",
    )
    requestheader_group_headers: tuple[str, ...] = option(
        STANDARD_NAMES.groups,
        TEXTS,
        "List of request headers to inspect for groups, comma separated.",
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = option(
        STANDARD_NAMES.extra_prefixes,
        TEXTS,
        "List of request header prefixes to inspect for extra attributes of users, comma separated.",
    )
    # What extension servers are shown; None: the certificate of a front proxy in the data directory.
    proxy_client_cert_file: Path | None = option(
        None,
        PATH,
        "Client certificate used to prove the identity of this server when it forwards requests to "
        "extension API servers. They verify it with the authorities in --requestheader-client-ca-file. If "
        "not provided, the server creates one in --data-dir.",
    )
    proxy_client_key_file: Path | None = option(
        None, PATH, "Private key for the client certificate in --proxy-client-cert-file."
    )
    token_auth_file: Path | None = option(
        None,
        PATH,
        "If set, the file that will be used to authenticate requests via static bearer tokens. Each line "
        'has the form token,user,uid,"group1,group2".',
    )
    enable_bootstrap_token_auth: bool = option(
        False,
        SWITCH,
        "Enable to allow secrets of type 'bootstrap.kubernetes.io/token' in the 'kube-system' namespace to "
        "be used for TLS bootstrapping authentication.",
    )
    anonymous_auth: bool = option(
        True,
        BOOLEAN,
        "Enables anonymous requests. Requests that are not rejected by another authentication method are "
        "treated as anonymous requests. Anonymous requests have the username system:anonymous and the group "
        "system:unauthenticated.",
    )
    authentication_config: Path | None = option(
        None,
        PATH,
        "File with authentication configuration, an object of the kind AuthenticationConfiguration: the "
        "accepted issuers of JSON Web Tokens, and the paths that accept anonymous requests. The server "
        "reloads it when it changes. Cannot be combined with flags that begin with --oidc.",
    )
    oidc_issuer_url: str = option(
        "",
        TEXT,
        "The URL of the OpenID issuer, only HTTPS scheme will be accepted. If set, it will be used to verify "
        "the OIDC JSON Web Token (JWT).",
    )
    oidc_client_id: str = option(
        "",
        TEXT,
        "The client ID for the OpenID Connect client; must be set if --oidc-issuer-url is set.",
    )
    oidc_ca_file: Path | None = option(
        None,
        PATH,
        "If set, the OpenID server's certificate will be verified by one of the authorities in this file, "
        "otherwise the host's root CA set will be used.",
    )
    oidc_username_claim: str = option(
        "sub",
        TEXT,
        "The OpenID claim to use as the user name. Note that claims other than the default are not "
        "guaranteed to be unique and immutable.",
    )
    oidc_username_prefix: str = option(
        "",
        TEXT,
        "If provided, all usernames will be prefixed with this value. If not provided, username claims other "
        "than 'email' are prefixed by the issuer URL to avoid clashes. To skip any prefixing, provide the "
        "value '-'.",
    )
    oidc_groups_claim: str = option(
        "",
        TEXT,
        "If provided, the name of a custom OpenID Connect claim for specifying user groups. The claim value "
        "is expected to be a string or array of strings.",
    )
    oidc_groups_prefix: str = option(
        "",
        TEXT,
        "If provided, all groups will be prefixed with this value to prevent conflicts with other "
        "authentication strategies.",
    )
    oidc_signing_algs: tuple[str, ...] = option(
        ("RS256",),
        Kind("strings", flag_values.signing_algorithms),
        "Comma-separated list of allowed JOSE asymmetric signing algorithms. JWTs with another 'alg' header "
        f"value will be rejected. Supported: {', '.join(SIGNING_ALGORITHMS)}.",
        repeats=True,
    )
    # Of each claim, the last value counts.
    oidc_required_claim: tuple[tuple[str, str], ...] = option(
        (),
        Kind("mapStringString", flag_values.required_claim),
        "A key=value pair that describes a required claim in the ID Token. If set, the claim is verified to "
        "be present in the ID Token with a matching value. Repeat this flag to specify multiple claims.",
        repeats=True,
        is_list=False,
    )
    authentication_token_webhook_config_file: Path | None = option(
        None,
        PATH,
        "File with webhook configuration for token authentication in kubeconfig format. The API server will "
        "query the remote service to determine authentication for bearer tokens.",
    )
    authentication_token_webhook_version: str = option(
        "v1beta1",
        TEXT,
        "The API version of the authentication.k8s.io TokenReview to send to and expect from the webhook.",
        choices=("v1", "v1beta1"),
    )
    authentication_token_webhook_cache_ttl_s: float = option(
        120.0, DURATION, "The duration to cache responses from the webhook token authenticator."
    )
    # The first issues service account tokens; those of all of them are accepted.
    service_account_issuer: tuple[str, ...] = option(
        ("https://kubernetes.default.svc",),
        Kind("string", flag_values.texts),
        "Identifier of the service account token issuer. When this flag is specified multiple times, the "
        "first is used to generate tokens and all are used to determine which issuers are accepted.",
        repeats=True,
    )
    service_account_signing_key_file: Path | None = option(
        None,
        PATH,
        "Path to the file that contains the private key of the service account token issuer. If not "
        "provided, a key is generated in --data-dir.",
    )
    service_account_key_file: tuple[Path, ...] = option(
        (),
        Kind("strings", flag_values.paths),
        "File containing PEM-encoded x509 RSA or ECDSA private or public keys, or certificates with such "
        "keys, used to verify service account tokens besides the signing key. The specified file can contain "
        "multiple keys, and the flag can be specified multiple times with different files.",
        repeats=True,
    )
    service_account_max_token_expiration_s: int = option(
        0,
        Kind("duration", flag_values.whole_duration_or_zero_s),
        "The maximum validity duration of a token created by the service account token issuer. 0 means no "
        "maximum.",
    )
    service_account_extend_token_expiration: bool = option(
        True,
        BOOLEAN,
        "Turns on projected service account expiration extension during token generation, which helps "
        "safe transition from legacy tokens to bound ones: a token that is bound to a pod and requested "
        "with a lifetime of 3607 seconds, as kubelets do, is valid for a year, and counts as stale after "
        "3607 seconds.",
    )
    service_account_lookup: bool = option(
        True,
        BOOLEAN,
        "If true, validate that service account tokens of Secrets still exist as part of authentication.",
    )
    service_account_jwks_uri: str = option(
        "",
        Kind("string", flag_values.https_url),
        "The URI of the JSON Web Key Set in the OpenID discovery document. Defaults to a path of this "
        "server.",
    )
    api_audiences: tuple[str, ...] = option(
        (),
        TEXTS,
        "Identifiers of the API. Service account tokens must be bound to at least one of these audiences. "
        "Defaults to the list of issuers.",
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
