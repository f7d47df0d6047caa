"""Makes redirects and links of a backend lead back through the proxy.

Only those that lead to the backend itself, by a path from its root; a relative path needs nothing.
Source: k8s.io/apimachinery, pkg/util/proxy/transport.go, rewriteURL.
"""

from __future__ import annotations

import posixpath
from typing import NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

# What Go leaves as it is in a path.
_SAFE = "/$&+,:;=@"


class ProxiedLinks(NamedTuple):
    """Rewrites the links in one answer.

    prefix: the path that stands for the backend's root, escaped.
    backend, request_host: the hosts that stand for the backend: where it is, and what the client has asked.
    """

    prefix: str
    backend: str
    request_host: str

    def rewrite(self, link: str) -> str:
        """Returns a link as the client has to follow it; what is no URL stays as it is."""
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
    """Joins two paths, without `.`, `..` and double slashes; a slash at the end stays."""
    whole = posixpath.normpath(f"/{prefix}/{path}")
    whole = f"/{whole.lstrip('/')}"
    return f"{whole}/" if path.endswith("/") and not whole.endswith("/") else whole


def escaped(path: str) -> str:
    """Escapes a path as Go's net/url does."""
    return quote(path, _SAFE, errors="surrogateescape")
