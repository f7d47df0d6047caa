"""The credentials by which this server authenticates to webhooks, and the hosts that get them.

They are in a file in the format of a kubeconfig, whose users are named after hosts.
Source: k8s.io/apiserver, pkg/util/webhook/authentication.go; k8s.io/client-go, transport.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

_HTTPS_PORT: Final = ":443"
ALL_HOSTS: Final = "*"


class PemText(NamedTuple):
    """A text in PEM format, or the file that has it."""

    text: bytes = b""
    path: Path | None = None


class ClientCredentials(NamedTuple):
    """The credentials of one user of a kubeconfig, any number of which may be set.

    token_file: read repeatedly; if it cannot be read, `token` is used.
    basic: name and password. certificate: with its private key.
    headers: those of impersonation.
    """

    token: str = ""
    token_file: Path | None = None
    basic: tuple[str, str] | None = None
    certificate: tuple[PemText, PemText] | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def are_none(self) -> bool:
        return self == _NONE


_NONE: Final = ClientCredentials()


@dataclass(frozen=True, slots=True)
class HostCredentials:
    """The credentials for calls, by host.

    by_host: `HOST:PORT`, or `HOST` for port 443, each with `*.` instead of its first labels; or `*`.
    otherwise: for all other hosts.
    """

    by_host: Mapping[str, ClientCredentials] = field(default_factory=dict)
    otherwise: ClientCredentials = _NONE

    @property
    def are_none(self) -> bool:
        return not self.by_host and self.otherwise.are_none

    def of(self, target: str) -> ClientCredentials:
        """Returns the credentials for `HOST:PORT`, by the most specific name that matches."""
        for name in _names(target):
            if (found := self.by_host.get(name)) is not None:
                return found
        return self.otherwise


def _names(target: str) -> Iterator[str]:
    yield from _with_wildcards(target)
    if target.endswith(_HTTPS_PORT):
        yield from _with_wildcards(target.removesuffix(_HTTPS_PORT))
    yield ALL_HOSTS


def _with_wildcards(target: str) -> Iterator[str]:
    yield target
    _, dot, rest = target.partition(".")
    while dot:
        yield f"*.{rest}"
        _, dot, rest = rest.partition(".")
