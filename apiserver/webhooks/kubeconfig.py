"""Reads files in the format of a kubeconfig, which configure calls of other servers.

As in Kubernetes, unknown fields are ignored, and paths in the file are relative to it.
Source: k8s.io/client-go, tools/clientcmd.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

from apiserver.golang.urls import redacted_urls
from apiserver.webhooks.credentials import ClientCredentials, HostCredentials, PemText
from apiserver.wire.configuration_fields import ConfigurationObject, InvalidConfiguration, decode

ReadFile = Callable[[Path], bytes]
T = TypeVar("T")

_HEADER: Final = "Impersonate-"
# Programs and libraries that get credentials from somewhere.
_UNSUPPORTED: Final = ("exec", "auth-provider")


class KubeconfigCluster(NamedTuple):
    """A cluster: the server to call. authorities: the CAs of its certificate; None for those of the
    system.
    """

    server: str
    authorities: PemText | None = None
    tls_server_name: str = ""


class KubeconfigContext(NamedTuple):
    """A context: the names of a cluster and a user, and the default namespace, each of which may be empty."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class Kubeconfig(NamedTuple):
    """The clusters, users and contexts of a kubeconfig file. path: that of the file."""

    path: Path
    clusters: Mapping[str, KubeconfigCluster]
    users: Mapping[str, ClientCredentials]
    contexts: Mapping[str, KubeconfigContext]
    current_context: str

    def host_credentials(self) -> HostCredentials:
        """Returns the users named after hosts; the current context's user is for all other hosts."""
        user = self.contexts.get(self.current_context, KubeconfigContext()).user
        return HostCredentials(self.users, self.users.get(user, ClientCredentials()))

    def current(self) -> tuple[KubeconfigCluster, ClientCredentials]:
        """Returns the cluster and the user of the current context.

        Raises InvalidConfiguration, which names the file.
        """
        return self.of_context(self.current_context)

    def of_context(self, name: str) -> tuple[KubeconfigCluster, ClientCredentials]:
        """Returns the cluster and the user of a context. Raises as `current` does."""
        if name not in self.contexts:
            field = "current-context" if name == self.current_context else "contexts"
            raise InvalidConfiguration(f'{self.path}: {field}: no context is named "{name}"')
        context = self.contexts[name]
        if context.cluster not in self.clusters:
            raise InvalidConfiguration(f'{self.path}: contexts: no cluster is named "{context.cluster}"')
        if context.user and context.user not in self.users:
            raise InvalidConfiguration(f'{self.path}: contexts: no user is named "{context.user}"')
        return self.clusters[context.cluster], self.users.get(context.user, ClientCredentials())


def read_kubeconfig(path: Path, read: ReadFile) -> Kubeconfig:
    """Reads a kubeconfig file. Raises InvalidConfiguration, and the errors of `read`."""
    try:
        fields = ConfigurationObject(decode(read(path)))
        return Kubeconfig(
            path=path,
            clusters=_named(fields, "clusters", "cluster", lambda each: _cluster(each, path.parent)),
            users=_named(fields, "users", "user", lambda each: _user(each, path.parent)),
            contexts=_named(fields, "contexts", "context", _context),
            current_context=fields.text("current-context"),
        )
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{path}: {error}") from None


def read_server(path: Path, read: ReadFile) -> tuple[KubeconfigCluster, ClientCredentials]:
    """Returns the server of a file's current context, which must be an https URL, and its user.

    Raises InvalidConfiguration, which names the file, and the errors of `read`.
    """
    cluster, credentials = read_kubeconfig(path, read).current()
    require_https(path, cluster)
    return cluster, credentials


def _named(
    fields: ConfigurationObject, field: str, item: str, make: Callable[[ConfigurationObject], T]
) -> dict[str, T]:
    """Returns entries by name; of two with the same name the first one counts."""
    found: dict[str, T] = {}
    for each in fields.objects(field):
        found.setdefault(each.text("name"), make(each.object(item)))
    return found


def _context(fields: ConfigurationObject) -> KubeconfigContext:
    return KubeconfigContext(fields.text("cluster"), fields.text("user"), fields.text("namespace"))


def _cluster(fields: ConfigurationObject, directory: Path) -> KubeconfigCluster:
    if fields.boolean("insecure-skip-tls-verify"):
        raise fields.fail("insecure-skip-tls-verify", "is not supported: the server must authenticate itself")
    if fields.text("proxy-url"):
        raise fields.fail("proxy-url", "is not supported")
    return KubeconfigCluster(
        fields.text("server"),
        _pem(fields, "certificate-authority", directory),
        fields.text("tls-server-name"),
    )


def _user(fields: ConfigurationObject, directory: Path) -> ClientCredentials:
    for name in _UNSUPPORTED:
        if fields.has(name):
            raise fields.fail(name, "is not supported")
    token, token_file = fields.text("token"), fields.text("tokenFile")
    user, password = fields.text("username"), fields.text("password")
    if (token or token_file) and (user or password):
        raise fields.fail("username", "username/password or bearer token may be set, but not both")
    for name, value in (("token", token), ("username", user), ("password", password)):
        if not value.isprintable():
            raise fields.fail(name, "must not contain control characters")
    certificate, key = (_pem(fields, name, directory) for name in ("client-certificate", "client-key"))
    if (certificate is None) is not (key is None):
        raise fields.fail("client-certificate", "client-certificate and client-key must be given together")
    return ClientCredentials(
        token=token,
        token_file=directory / token_file if token_file else None,
        basic=(user, password) if user or password else None,
        certificate=(certificate, key) if certificate is not None and key is not None else None,
        headers=tuple(_impersonation(fields)),
    )


def _pem(fields: ConfigurationObject, name: str, directory: Path) -> PemText | None:
    """Returns a PEM text in the file, which takes precedence over the name of another file."""
    if data := fields.text(f"{name}-data"):
        try:
            return PemText(text=base64.b64decode(data, validate=True))
        except binascii.Error:
            raise fields.fail(f"{name}-data", "is not base64") from None
    path = fields.text(name)
    return PemText(path=directory / path) if path else None


def _impersonation(fields: ConfigurationObject) -> Iterator[tuple[str, str]]:
    user = fields.text("as")
    headers = [("User", user), ("Uid", fields.text("as-uid"))]
    headers += [("Group", group) for group in fields.texts("as-groups")]
    extra = fields.object("as-user-extra")
    for key in fields.any("as-user-extra") or {}:
        headers += [(f"Extra-{quote(key, safe='')}", value) for value in extra.texts(key)]
    if not user:
        return
    for name, value in headers:
        if not value.isprintable():
            raise fields.fail("as", "must not contain control characters")
        if value:
            yield f"{_HEADER}{name}", value


def require_https(path: Path, cluster: KubeconfigCluster, *, allows_http: bool = False) -> None:
    """Checks that the server of a cluster is called with HTTPS. Raises InvalidConfiguration."""
    if not is_https(cluster.server, allows_http=allows_http):
        wanted = "http or https" if allows_http else "https"
        server = redacted_urls(cluster.server)
        raise InvalidConfiguration(f'{path}: clusters: server "{server}" is not a URL with {wanted}')


def is_https(server: str, *, allows_http: bool = False) -> bool:
    """Whether a server's URL is one that can be called by https. allows_http: or by http."""
    try:
        url = urlsplit(server)
        is_scheme = url.scheme == "https" or (allows_http and url.scheme == "http")
        return is_scheme and _is_host(url.hostname or "") and url.port != 0
    except ValueError:  # a host or a port that cannot be one
        return False


def _is_host(text: str) -> bool:
    """Returns whether a text may be the name or the address of a host. Raises ValueError if it cannot be."""
    text.encode("idna")  # As the resolver does: no label may be empty, or too long.
    return bool(text) and text.isprintable() and " " not in text
