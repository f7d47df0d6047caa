"""Keeps the ConfigMap `kube-system/extension-apiserver-authentication`.

From it extension API servers learn by which CAs clients of this server are authenticated.
Servers with different CAs add them to each other's: none is removed before it has expired.
Source: k8s.io/kubernetes, pkg/controlplane/controller/clusterauthenticationtrust.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Final

from cryptography import x509

from apiserver.controllers.kept_objects import KeptObject, keep, keep_forever
from apiserver.golang.pem import UNREADABLE
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.vocabulary import Document

INTERVAL_S: Final = 60.0
NAMESPACE: Final = "kube-system"
NAME: Final = "extension-apiserver-authentication"
KEY: Final = "client-ca-file"
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class AuthenticationInfo:
    """client_cas: the CAs of clients, as PEM. clock: seconds since 1970."""

    def __init__(
        self, registry: Registry, served: ServedTable, client_cas: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._registry = registry
        self._served = served
        self._client_cas = client_cas
        self._clock = clock

    async def run(self, on_first: Callable[[], None]) -> None:
        """Keep it until cancelled. on_first: called once it has been written, if that is possible."""
        await keep_forever(self._registry, self.reconcile, INTERVAL_S, on_first)

    async def reconcile(self) -> None:
        """Write what is not as it should be. Raises StorageError."""
        resource = self._served.find("", "v1", "configmaps")
        assert resource is not None
        await keep(self._registry, KeptObject(resource, NAMESPACE, NAME, self._wanted))

    def _wanted(self, current: Document | None) -> Document:
        if current is None:
            current = {"metadata": {"namespace": NAMESPACE, "name": NAME}}
        data = current.get("data") or {}
        known = str(data.get(KEY, ""))
        together = list(self._usable(known + self._client_cas))
        if together == _CERTIFICATE.findall(known):
            return current
        return {**current, "data": {**data, KEY: "".join(f"{pem}\n" for pem in together)}}

    def _usable(self, pem: str) -> Iterator[str]:
        """Yields the certificates that have not expired, each once."""
        for block in dict.fromkeys(_CERTIFICATE.findall(pem)):
            try:
                certificate = x509.load_pem_x509_certificate(block.encode())
            except UNREADABLE:
                continue
            if certificate.not_valid_after_utc.timestamp() > self._clock():
                yield block
