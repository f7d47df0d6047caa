"""Where a webhook is, as a `clientConfig` of a definition or of a webhook configuration says it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

from apiserver.vocabulary import Document

SERVICE_PORT: Final = 443
_PORT: Final = re.compile(r":[0-9]+$")


class ClientConfig(NamedTuple):
    """Where a webhook is, and who must have signed its certificate.

    url: where reviews are posted to.
    ca_bundle: PEM in base64; empty: the system's authorities are trusted.
    server_name: that its certificate must have, if not the host of the URL.

    A service is called by the name that a cluster's DNS gives it, `<service>.<namespace>.svc`, which its
    certificate must have.
    """

    url: str
    ca_bundle: str
    server_name: str = ""

    @property
    def target(self) -> str:
        """The host and the port, as credentials are found by them."""
        host = urlsplit(self.url).netloc
        return host if _PORT.search(host) else f"{host}:{SERVICE_PORT}"

    @classmethod
    def of(cls, document: Document) -> Self:
        url = document.get("url") or _url_of(document.get("service") or {})
        return cls(url, document.get("caBundle") or "")


def _url_of(service: Document) -> str:
    host = f"{service.get('name', '')}.{service.get('namespace', '')}.svc"
    path = service.get("path") or "/"
    slash = "" if path.startswith("/") else "/"
    return f"https://{host}:{service.get('port') or SERVICE_PORT}{slash}{path}"
