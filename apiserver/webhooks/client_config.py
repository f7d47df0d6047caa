"""The URL of a webhook, from the `clientConfig` of a definition or a webhook configuration."""

from __future__ import annotations

import posixpath
import re
from typing import Final, NamedTuple, Self
from urllib.parse import quote_from_bytes, urlsplit

from apiserver.golang.urls import InvalidUrl, parse
from apiserver.meta.vocabulary import Document

SERVICE_PORT: Final = 443
_PORT: Final = re.compile(r":[0-9]+$")
# What Go leaves as it is in a path.
_SAFE: Final = "/$&+,:;=@"


class ClientConfig(NamedTuple):
    """The URL of a webhook, and the CA of its certificate.

    url: the one that reviews are posted to.
    ca_bundle: PEM in base64; empty: the system's authorities are trusted.
    server_name: the name in its certificate, if not the host of the URL.

    A service is called by the name that a cluster's DNS gives it, `<service>.<namespace>.svc`, which its
    certificate must have.
    """

    url: str
    ca_bundle: str
    server_name: str = ""

    @property
    def target(self) -> str:
        """The host and the port, by which credentials are found."""
        host = urlsplit(self.url).netloc
        return host if _PORT.search(host) else f"{host}:{SERVICE_PORT}"

    @classmethod
    def of(cls, document: Document) -> Self:
        url = document.get("url")
        return cls(
            cleaned_url(url) if url else _url_of(document.get("service") or {}),
            document.get("caBundle") or "",
        )


def cleaned_url(text: str) -> str:
    """Returns a URL as Go's client requests it: without `.`, `..`, and double slashes in its path.

    Validation of objects allows no query; a kubeconfig may have one. An invalid URL is returned unchanged, so
    that the call reports the error.
    Source: k8s.io/client-go, rest/request.go and url_utils.go.
    """
    try:
        url = parse(text)
    except InvalidUrl:
        return text
    user = f"{url.user}@" if url.user is not None else ""
    query = f"?{url.query}" if url.query else ""
    return f"{url.scheme}://{user}{url.host}{_cleaned(url.path)}{query}"


def _url_of(service: Document) -> str:
    host = f"{service.get('name', '')}.{service.get('namespace', '')}.svc"
    path = (service.get("path") or "").encode("utf-8", "replace")
    return f"https://{host}:{service.get('port') or SERVICE_PORT}{_cleaned(path)}"


def _cleaned(path: bytes) -> str:
    """Returns an unescaped path as it is requested."""
    whole = posixpath.normpath(b"/" + path)
    return quote_from_bytes(b"/" + whole.lstrip(b"/"), _SAFE)
