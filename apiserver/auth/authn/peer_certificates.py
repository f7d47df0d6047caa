"""Verifies client certificates of connections: they identify a user or a front proxy.

The TLS context trusts the CAs of both kinds, and has verified the certificate. The CA that signed it decides
its use: the certificate of a front proxy names no user, whatever its subject is, and that of a user cannot
speak for others. One CA may be of both kinds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from apiserver.auth.authn.chain import PeerCertificate

if TYPE_CHECKING:
    from apiserver.auth.authn.certificate_verifier import CertificateVerifier, TlsConnection


class PeerCertificates:
    """Classifies client certificates by their CA. clients, front_proxies: their CAs, as PEM, which are valid.

    extra_prefix: that of the names of a user's extra attributes. clock: seconds since 1970.
    """

    def __init__(
        self, clients: bytes, front_proxies: bytes, extra_prefix: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._extra_prefix, self._clock = extra_prefix, clock
        self.trust(clients, front_proxies)

    def trust(self, clients: bytes, front_proxies: bytes) -> None:
        """Trust only these CAs from now on."""
        self._authorities = clients, front_proxies
        self._made: CertificateVerifier | None = None

    def of(self, described: Mapping[str, Any], connection: TlsConnection) -> PeerCertificate:
        """Returns the identity that a certificate proves. described: as returned by
        `SSLSocket.getpeercert`.
        """
        return self._verifier.of(described, connection)

    def client_authority(self, connection: TlsConnection) -> str:
        """Returns the digest of the CA of a user's certificate on a connection; empty if it is of no user."""
        return self._verifier.client_authority(connection)

    def trusts_users_of(self, authority: str) -> bool:
        """Returns whether a CA is trusted now for certificates of users. authority: its digest."""
        return self._verifier.trusts_users_of(authority)

    @property
    def _verifier(self) -> CertificateVerifier:
        """The verifier for the present CAs, made for the first certificate."""
        if self._made is None:
            from apiserver.auth.authn.certificate_verifier import CertificateVerifier

            self._made = CertificateVerifier(*self._authorities, self._extra_prefix, self._clock)
        return self._made
