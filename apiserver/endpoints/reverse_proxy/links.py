"""Rewrites redirects and links of a backend so that they lead back through the proxy.

Only absolute paths and URLs of the backend itself are rewritten; relative paths work unchanged.
Source: k8s.io/apimachinery, pkg/util/proxy/transport.go, rewriteURL.
"""

from __future__ import annotations

import posixpath
from typing import NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

# What Go leaves as it is in a path.
_SAFE = "/$&+,:;=@"


class ProxiedLinks(NamedTuple):
    """Rewrites the links in one response.

    prefix: the escaped path below which the client sees the backend's root.
    backend, request_host: the hosts that mean the backend: its own, and the one in the client's request.
    """

    prefix: str
    backend: str
    request_host: str

    def rewrite(self, link: str) -> str:
        """Returns a link as the client has to follow it; an invalid URL is returned unchanged."""
        try:
            url = urlsplit(link)
        except ValueError:
            return link
        if not url.path.startswith("/") or url.netloc not in ("", self.backend, self.request_host):
            return link
        if url.netloc and url.netloc != self.request_host:
            url = url._replace(scheme="", netloc="")
        if not url.path.startswith(self.prefix):
            url = url._replace(path=joined(self.prefix, joined("", url.path)))
        return urlunsplit(url)


def joined(prefix: str, path: str) -> str:
    """Joins two paths, resolving `.`, `..` and double slashes; a slash at the end is kept."""
    whole = posixpath.normpath(f"/{prefix}/{path}")
    whole = f"/{whole.lstrip('/')}"
    return f"{whole}/" if path.endswith("/") and not whole.endswith("/") else whole


def escaped(path: str) -> str:
    """Escapes a path as Go's net/url does."""
    return quote(path, _SAFE, errors="surrogateescape")
