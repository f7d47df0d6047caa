"""The server and credentials of a subcommand, from a kubeconfig. Options take precedence over the file."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.cli.argument_parser import UsageError, path
from apiserver.cli.bounded_files import read_bounded
from apiserver.golang.urls import redacted_urls
from apiserver.webhooks.credentials import ClientCredentials, PemText
from apiserver.webhooks.kubeconfig import (
    Kubeconfig,
    KubeconfigCluster,
    is_https,
    read_kubeconfig,
    require_https,
)
from apiserver.wire.configuration_fields import InvalidConfiguration

_OPTIONS: Final = "the command line"
# The title of the options in help.
CONNECTION_FLAGS: Final = "Connection flags"


def default_kubeconfig() -> Path:
    """Returns the file that kubectl takes: the first of $KUBECONFIG, or that in the home directory."""
    named = next(filter(None, os.environ.get("KUBECONFIG", "").split(os.pathsep)), "")
    # Not Path.home(), which raises RuntimeError for a user without a home directory.
    return Path(named or os.path.expanduser("~/.kube/config"))


class ServerAccess(NamedTuple):
    """A server, and what it is shown. Source: k8s.io/client-go, tools/clientcmd.

    namespace: the context's; empty if it has none. source: where the credentials come from, for errors.
    is_verified: the server has to prove who it is.
    """

    cluster: KubeconfigCluster
    credentials: ClientCredentials
    namespace: str
    source: str
    is_verified: bool


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of a command line. What is empty is as the kubeconfig says.

    kubeconfig: None: `otherwise`, which there need not be if there is a `server`.
    token, token_file, client_certificate: take the place of all credentials of the kubeconfig's user.
    allows_http: whether the server may have a URL without TLS, as mocks and `kubectl proxy` do.
    """

    kubeconfig: Path | None = None
    context: str = ""
    server: str = ""
    token: str = ""
    token_file: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None
    certificate_authority: Path | None = None
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    otherwise: Path = field(default_factory=default_kubeconfig)
    allows_http: bool = False

    @classmethod
    def of(cls, given: argparse.Namespace) -> ServerOptions:
        """Returns what a parser with these options has found. Raises UsageError."""
        options = cls(**{each.name: getattr(given, each.name) for each in fields(cls) if each.name in given})
        if options.token and options.token_file is not None:
            raise UsageError("--token and --token-file cannot be set together")
        if (options.client_certificate is None) is not (options.client_key is None):
            raise UsageError("--client-certificate and --client-key must be given together")
        if options.insecure_skip_tls_verify and options.certificate_authority is not None:
            raise UsageError("--certificate-authority and --insecure-skip-tls-verify cannot be set together")
        if options.server and not is_https(options.server, allows_http=options.allows_http):
            wanted = "http or https" if options.allows_http else "https"
            raise UsageError(f'--server: "{redacted_urls(options.server)}" is not a URL with {wanted}')
        return options

    def target(self) -> ServerAccess:
        """Reads the kubeconfig. Raises OSError, InvalidConfiguration."""
        path = self.kubeconfig or self.otherwise
        content = self._content(path)
        cluster, credentials, namespace = KubeconfigCluster(""), ClientCredentials(), ""
        if content is not None:
            cluster, credentials = content.of_context(self.context or content.current_context)
            namespace = content.contexts[self.context or content.current_context].namespace
        own = self._credentials()
        authority = self.certificate_authority
        cluster = KubeconfigCluster(
            self.server or cluster.server,
            PemText(path=authority) if authority is not None else cluster.authorities,
            self.tls_server_name or cluster.tls_server_name,
        )
        require_https(path, cluster, allows_http=self.allows_http)
        return ServerAccess(
            cluster,
            credentials if own.are_none else own,
            namespace,
            str(path) if own.are_none else _OPTIONS,
            not self.insecure_skip_tls_verify,
        )

    def _content(self, path: Path) -> Kubeconfig | None:
        """Returns the kubeconfig; None if nobody has asked for it, and it tells nothing. Raises likewise."""
        is_needed = self.kubeconfig is not None or self.context or not self.server
        try:
            content = read_kubeconfig(path, read_bounded)
        except FileNotFoundError:
            if is_needed:
                raise
            return None
        return content if is_needed or content.current_context else None

    def _credentials(self) -> ClientCredentials:
        """Returns those that are given. Raises InvalidConfiguration."""
        if not self.token.isprintable():
            raise InvalidConfiguration("--token must not contain control characters")
        pair = None
        if self.client_certificate is not None and self.client_key is not None:
            pair = PemText(path=self.client_certificate), PemText(path=self.client_key)
        return ClientCredentials(token=self.token, token_file=self.token_file, certificate=pair)


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Have a parser take the options, for `ServerOptions.of`."""
    group = parser.add_argument_group(CONNECTION_FLAGS)
    group.add_argument(
        "--kubeconfig",
        type=path,
        metavar="FILE",
        help="The kubeconfig file. By default, the command uses the same file as kubectl.",
    )
    group.add_argument(
        "--context",
        metavar="NAME",
        default="",
        help="The context in the kubeconfig. The default is the current context.",
    )
    group.add_argument(
        "--server",
        metavar="URL",
        default="",
        help="The URL of the server. The default is the server in the context.",
    )
    group.add_argument(
        "--token",
        default="",
        help="A bearer token. Other users of this machine can see the token in the process list.",
    )
    group.add_argument("--token-file", type=path, metavar="FILE", help="A file that contains a bearer token.")
    group.add_argument(
        "--client-certificate",
        type=path,
        metavar="FILE",
        help="A file that contains a client certificate in PEM format.",
    )
    group.add_argument(
        "--client-key",
        type=path,
        metavar="FILE",
        help="A file that contains the private key for the certificate in --client-certificate, in PEM "
        "format.",
    )
    group.add_argument(
        "--certificate-authority",
        type=path,
        metavar="FILE",
        help="A file that contains the CA certificates used to verify the server, in PEM format.",
    )
    group.add_argument(
        "--tls-server-name",
        metavar="NAME",
        default="",
        help="The server name to expect in the server's certificate, if it differs from the host in the URL.",
    )
    group.add_argument(
        "--insecure-skip-tls-verify",
        action="store_true",
        help="Do not verify the server's certificate. If you set this flag, the command might send "
        "credentials to an impostor.",
    )
