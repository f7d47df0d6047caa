"""Keeps the ConfigMap `kube-system/extension-apiserver-authentication`.

From it extension API servers learn the CAs that authenticate clients of this server, and how this server
identifies itself when it forwards requests: its CA and names, and the headers in which it names the user.
Servers with different CAs, names and headers add them to each other's: no CA is removed before it has
expired.
Source: k8s.io/kubernetes, pkg/controlplane/controller/clusterauthenticationtrust.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from apiserver.auth.authn.request_header import STANDARD_NAMES, RequestHeaderNames
from apiserver.controllers.kept_objects import KeptObject, keep, keep_forever
from apiserver.golang.pem import first_expiry
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry

INTERVAL_S: Final = 60.0
NAMESPACE: Final = "kube-system"
NAME: Final = "extension-apiserver-authentication"
CLIENT_CAS: Final = "client-ca-file"
FRONT_PROXY_CAS: Final = "requestheader-client-ca-file"
ALLOWED_NAMES: Final = "requestheader-allowed-names"
# The certificates in a text, in PEM.
certificate_blocks: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL
).findall


class TrustedClients(NamedTuple):
    """The CAs and names that a server trusts to authenticate clients.

    client_cas, front_proxy_cas: the CAs of clients and of front proxies, as PEM.
    front_proxy_names: the common names of front proxies; any, if there are none.
    headers: those in which front proxies name the user.
    """

    client_cas: str
    front_proxy_cas: str
    front_proxy_names: tuple[str, ...] = ()
    headers: RequestHeaderNames = STANDARD_NAMES

    def lists(self) -> Mapping[str, Sequence[str]]:
        """Returns the fields that are lists instead of certificates, by their keys in the ConfigMap."""
        return {
            ALLOWED_NAMES: self.front_proxy_names,
            "requestheader-username-headers": self.headers.users,
            "requestheader-uid-headers": self.headers.uids,
            "requestheader-group-headers": self.headers.groups,
            "requestheader-extra-headers-prefix": self.headers.extra_prefixes,
        }


class AuthenticationInfo:
    """The controller that keeps the ConfigMap `extension-apiserver-authentication`.

    trusted: the clients that this server trusts. clock: seconds since 1970.
    expires_at: returns when a certificate in PEM expires, in seconds since 1970, or raises ValueError.
    """

    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        trusted: TrustedClients,
        clock: Callable[[], float] = time.time,
        expires_at: Callable[[bytes], float] = first_expiry,
    ) -> None:
        self._registry = registry
        self._served = served
        self._trusted = trusted
        self._clock, self._expires_at = clock, expires_at
        self._changed = asyncio.Event()

    def trust(self, trusted: TrustedClients) -> None:
        """Schedule a write of changed trust."""
        self._trusted = trusted
        self._changed.set()

    async def run(self, on_first: Callable[[], None]) -> None:
        """Keep the ConfigMap until cancelled. on_first: called once it has been written, if possible."""
        await keep_forever(self._registry, self.reconcile, INTERVAL_S, on_first, self._changed)

    async def reconcile(self) -> None:
        """Write the ConfigMap if it differs from the required content. Raises StorageError."""
        resource = self._served.require("", "configmaps")
        await keep(self._registry, KeptObject(resource, NAMESPACE, NAME, self._wanted))

    def _wanted(self, current: Document | None) -> Document:
        if current is None:
            current = {"metadata": {"namespace": NAMESPACE, "name": NAME}}
        known = current.get("data") or {}
        data = {
            **known,
            CLIENT_CAS: self._together(known.get(CLIENT_CAS), self._trusted.client_cas),
            FRONT_PROXY_CAS: self._together(known.get(FRONT_PROXY_CAS), self._trusted.front_proxy_cas),
        }
        for key, own in self._trusted.lists().items():
            data[key] = _list_together(known.get(key), own)
        return current if data == known else {**current, "data": data}

    def _together(self, known: object, own: str) -> str:
        """Returns the known certificates unchanged if they are complete, so that their formatting is kept."""
        text = known if isinstance(known, str) else ""
        together = list(self._usable(text + own))
        return text if together == certificate_blocks(text) else "".join(f"{pem}\n" for pem in together)

    def _usable(self, pem: str) -> Iterator[str]:
        """Yields the certificates that have not expired, each once."""
        for block in dict.fromkeys(certificate_blocks(pem)):
            try:
                expires_at = self._expires_at(block.encode())
            except ValueError:
                continue
            if expires_at > self._clock():
                yield block


def _list_together(known: object, own: Sequence[str]) -> str:
    """Returns a JSON list that begins with the known strings; an invalid list is replaced."""
    try:
        found = json.loads(known) if isinstance(known, str) else []
    except ValueError:
        found = []
    texts = [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
    together = list(dict.fromkeys((*texts, *own)))
    return known if isinstance(known, str) and found == together else json.dumps(together)
