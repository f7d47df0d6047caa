"""Where a forwarded request goes to."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import NamedTuple

from yarl import URL


class ProxyBackend(NamedTuple):
    """A server that requests are forwarded to.

    host: a name or an address. tls: None for plain HTTP.
    server_name: that its certificate must have, if it is not the host.
    keeps_connections: connections are kept for later requests; for servers of which there are few.
    only_proxyable: see `AddressRules`; of those whose address users of a namespace choose.
    is_in_process: it is the kubelet of a node with the host as its name, in this process.
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
    """Where a request goes to, and how.

    path: escaped, from the root; empty if the request has none, not even a slash.
    query: as it is in the URL.
    prefix: the path, escaped, that stands for the backend's root in the client's eyes: redirects and links
        lead back below it. None: they are left alone.
    headers: more of them for the backend, in place of those that the client has sent.
    upgrade_required: requests that upgrade nothing are refused.
    rejects_redirects: a redirect is not passed on: the client would be led past this server.
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
        """The URL as messages tell it."""
        return f"{self.backend.scheme}://{self.backend.authority}{self.path_and_query}"

    def url(self) -> URL:
        """Returns the URL, of its parts as they are. Its host is another if the backend's is none."""
        return URL.build(
            scheme=self.backend.scheme,
            authority=self.backend.authority,
            path=self.path or "/",
            query_string=self.query,
            encoded=True,
        )
