"""Which server a subcommand asks, and as whom: by a kubeconfig, and by options that count more."""

from __future__ import annotations

import argparse
import errno
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final, NamedTuple

from apiserver.cli.argument_parser import UsageError
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
# A kubeconfig of a thousand clusters has a third of this.
FILE_BYTES_MAX: Final = 16 * 1024 * 1024


def read_bounded(path: Path) -> bytes:
    """Returns what is in a file that a command line names. Raises OSError with its name."""
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise OSError(errno.EFBIG, f"is longer than {FILE_BYTES_MAX} bytes", str(path))
    return content


def default_kubeconfig() -> Path:
    """Returns the file that kubectl takes: the first of $KUBECONFIG, or that in the home directory."""
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(named) if named else Path.home() / ".kube" / "config"


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
            raise UsageError("--token and --token-file exclude each other")
        if (options.client_certificate is None) is not (options.client_key is None):
            raise UsageError("--client-certificate and --client-key must be given together")
        if options.insecure_skip_tls_verify and options.certificate_authority is not None:
            raise UsageError("--certificate-authority has no use with --insecure-skip-tls-verify")
        if options.server and not is_https(options.server, allows_http=options.allows_http):
            wanted = "http or https" if options.allows_http else "https"
            raise UsageError(f'--server: "{options.server}" is no URL with {wanted}')
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
            raise InvalidConfiguration("--token must not have control characters")
        pair = None
        if self.client_certificate is not None and self.client_key is not None:
            pair = PemText(path=self.client_certificate), PemText(path=self.client_key)
        return ClientCredentials(token=self.token, token_file=self.token_file, certificate=pair)


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Have a parser take the options, for `ServerOptions.of`."""
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="The kubeconfig file; by default that of kubectl."
    )
    parser.add_argument(
        "--context",
        metavar="NAME",
        default="",
        help="The context of the kubeconfig; by default its current one.",
    )
    parser.add_argument(
        "--server", metavar="URL", default="", help="The URL of the server; by default that of the context."
    )
    parser.add_argument("--token", default="", help="A bearer token. Other users of this machine can see it.")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="A file that contains a bearer token."
    )
    parser.add_argument(
        "--client-certificate", type=Path, metavar="FILE", help="A client certificate, in PEM."
    )
    parser.add_argument(
        "--client-key", type=Path, metavar="FILE", help="The private key of the client certificate, in PEM."
    )
    parser.add_argument(
        "--certificate-authority",
        type=Path,
        metavar="FILE",
        help="The CA certificates that the server's certificate is verified with, in PEM.",
    )
    parser.add_argument(
        "--tls-server-name",
        metavar="NAME",
        default="",
        help="The name in the server's certificate, if it is not the host of the URL.",
    )
    parser.add_argument(
        "--insecure-skip-tls-verify",
        action="store_true",
        help="Skip certificate verification (credentials may be sent to an impostor).",
    )
