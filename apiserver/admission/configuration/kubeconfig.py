"""Reads files in the format of a kubeconfig, which say how this server calls others.

As in Kubernetes, fields that are not known are ignored, and paths in the file are relative to it.
Source: k8s.io/client-go, tools/clientcmd.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, urlsplit

from apiserver.admission.configuration.fields import Fields, InvalidConfiguration, decode
from apiserver.webhooks.credentials import ClientCredentials, HostCredentials, PemText

ReadFile = Callable[[Path], bytes]
T = TypeVar("T")

_HEADER: Final = "Impersonate-"
# Programs and libraries that get credentials from somewhere.
_UNSUPPORTED: Final = ("exec", "auth-provider")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A server that is called. authorities: of its certificate; None: those of the system."""

    server: str
    authorities: PemText | None = None
    tls_server_name: str = ""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The parts of a file. contexts: of each the names of its cluster and its user."""

    clusters: Mapping[str, Cluster]
    users: Mapping[str, ClientCredentials]
    contexts: Mapping[str, tuple[str, str]]
    current_context: str

    def host_credentials(self) -> HostCredentials:
        """Returns the users, whose names are those of hosts; the current context's is for all others."""
        _, user = self.contexts.get(self.current_context, ("", ""))
        return HostCredentials(self.users, self.users.get(user, ClientCredentials()))

    def current(self) -> tuple[Cluster, ClientCredentials]:
        """Returns what the current context names. Raises InvalidConfiguration."""
        if self.current_context not in self.contexts:
            raise InvalidConfiguration(f'current-context: no context is named "{self.current_context}"')
        cluster, user = self.contexts[self.current_context]
        if cluster not in self.clusters:
            raise InvalidConfiguration(f'contexts: no cluster is named "{cluster}"')
        if user and user not in self.users:
            raise InvalidConfiguration(f'contexts: no user is named "{user}"')
        return self.clusters[cluster], self.users.get(user, ClientCredentials())


def read_kubeconfig(path: Path, read: ReadFile) -> Kubeconfig:
    """Raises InvalidConfiguration, and what `read` raises."""
    try:
        fields = Fields(decode(read(path)))
        return Kubeconfig(
            clusters=_named(fields, "clusters", "cluster", lambda each: _cluster(each, path.parent)),
            users=_named(fields, "users", "user", lambda each: _user(each, path.parent)),
            contexts=_named(
                fields, "contexts", "context", lambda each: (each.text("cluster"), each.text("user"))
            ),
            current_context=fields.text("current-context"),
        )
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{path}: {error}") from None


def _named(fields: Fields, field: str, item: str, make: Callable[[Fields], T]) -> dict[str, T]:
    """Of two with the same name the first one counts."""
    found: dict[str, T] = {}
    for each in fields.objects(field):
        found.setdefault(each.text("name"), make(each.object(item)))
    return found


def _cluster(fields: Fields, directory: Path) -> Cluster:
    if fields.boolean("insecure-skip-tls-verify"):
        raise fields.fail("insecure-skip-tls-verify", "is not supported: who is called must prove who it is")
    if fields.text("proxy-url"):
        raise fields.fail("proxy-url", "is not supported")
    return Cluster(
        fields.text("server"),
        _pem(fields, "certificate-authority", directory),
        fields.text("tls-server-name"),
    )


def _user(fields: Fields, directory: Path) -> ClientCredentials:
    for name in _UNSUPPORTED:
        if fields.has(name):
            raise fields.fail(name, "is not supported")
    token, token_file = fields.text("token"), fields.text("tokenFile")
    user, password = fields.text("username"), fields.text("password")
    if (token or token_file) and (user or password):
        raise fields.fail("username", "username/password or bearer token may be set, but not both")
    for name, value in (("token", token), ("username", user), ("password", password)):
        if not value.isprintable():
            raise fields.fail(name, "must not have control characters")
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


def _pem(fields: Fields, name: str, directory: Path) -> PemText | None:
    """The text in the file itself counts more than the name of another one."""
    if data := fields.text(f"{name}-data"):
        try:
            return PemText(text=base64.b64decode(data, validate=True))
        except binascii.Error:
            raise fields.fail(f"{name}-data", "is not base64") from None
    path = fields.text(name)
    return PemText(path=directory / path) if path else None


def _impersonation(fields: Fields) -> Iterator[tuple[str, str]]:
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
            raise fields.fail("as", "must not have control characters")
        if value:
            yield f"{_HEADER}{name}", value


def require_https(path: Path, cluster: Cluster) -> None:
    """Raises InvalidConfiguration."""
    url = urlsplit(cluster.server)
    if url.scheme != "https" or not url.hostname:
        raise InvalidConfiguration(f'{path}: clusters: server "{cluster.server}" is no URL with https')
