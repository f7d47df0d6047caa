"""The destination of a forwarded request."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import NamedTuple

from yarl import URL


class ProxyBackend(NamedTuple):
    """A server that requests are forwarded to.

    host: a name or an address. tls: None for plain HTTP.
    server_name: the name in its certificate, if not the host.
    keeps_connections: whether connections are kept for later requests, for servers of which there are few.
    only_proxyable: see `AddressRules`; for backends whose address users of a namespace choose.
    is_in_process: whether it is the simulated kubelet, in this process, of the node named by the host.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    keeps_connections: bool = False
    only_proxyable: bool = False
    is_in_process: bool = False

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ProxyTarget(NamedTuple):
    """The destination of a forwarded request, and how it is forwarded.

    path: escaped, from the root; empty if the request has none, not even a slash.
    query: as it is in the URL.
    prefix: the escaped path below which the client sees the backend's root: redirects and links are rewritten
        to it; None: they are left unchanged.
    headers: further ones for the backend, which replace those of the client.
    upgrade_required: whether requests without an upgrade are refused.
    rejects_redirects: whether redirects are rejected, which could lead the client past this server.
    """

    backend: ProxyBackend
    path: str
    query: str = ""
    prefix: str | None = None
    headers: Sequence[tuple[str, str]] = ()
    upgrade_required: bool = False
    rejects_redirects: bool = False

    @property
    def path_and_query(self) -> str:
        path = self.path or "/"
        return f"{path}?{self.query}" if self.query else path

    @property
    def text(self) -> str:
        """The URL as shown in messages."""
        return f"{self.backend.scheme}://{self.backend.authority}{self.path_and_query}"

    def url(self) -> URL:
        """Returns the URL for the HTTP client, with its parts unchanged.

        Its host is a placeholder if the backend's is not a valid one.
        """
        return URL.build(
            scheme=self.backend.scheme,
            authority=self.backend.authority,
            path=self.path or "/",
            query_string=self.query,
            encoded=True,
        )
