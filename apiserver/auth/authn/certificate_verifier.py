"""Verifies client certificates by the CAs of clients and of front proxies, as `peer_certificates` says.

This module imports `cryptography`, so `peer_certificates` imports it for the first certificate.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from apiserver.auth.authn.chain import NO_CERTIFICATE, PeerCertificate
from apiserver.auth.authn.claim_mapping import CREDENTIAL_ID
from apiserver.auth.authn.client_cert import user_of
from apiserver.golang.x509_parsing import UNREADABLE, parse_certificate, parse_pem_certificates
from apiserver.meta.vocabulary import UserInfo

_UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


class TlsConnection(Protocol):
    """The part of `ssl.SSLSocket`, or `ssl.SSLObject`, that is needed."""

    def getpeercert(self, binary_form: Literal[True]) -> bytes | None: ...


class CertificateVerifier:
    """Classifies client certificates by their CA, with the arguments and methods of `PeerCertificates`."""

    def __init__(
        self, clients: bytes, front_proxies: bytes, extra_prefix: str, clock: Callable[[], float]
    ) -> None:
        self._extra_prefix, self._clock = extra_prefix, clock
        self._clients = _Authorities(clients)
        self._front_proxies = _Authorities(front_proxies)

    def of(self, described: Mapping[str, Any], connection: TlsConnection) -> PeerCertificate:
        """Returns the identity that a certificate proves. described: as returned by
        `SSLSocket.getpeercert`.
        """
        try:
            certificate = parse_certificate(connection.getpeercert(True) or b"")
            begins_at = certificate.not_valid_before_utc.timestamp()
            ends_at = certificate.not_valid_after_utc.timestamp()
        except UNREADABLE:
            return NO_CERTIFICATE
        chain = _verified_chain(connection)
        # That it is valid by the computer's clock has been seen; the server's may be another.
        if begins_at > self._clock():
            return PeerCertificate(is_trusted=False)
        is_client = self._clients.have_signed(certificate, chain)
        try:
            user = self._user(described, certificate) if is_client else None
        except UNREADABLE:
            user, is_client = None, False
        is_front_proxy = self._front_proxies.have_signed(certificate, chain)
        return PeerCertificate(
            user, _common_name(described) if is_front_proxy else None, is_client or is_front_proxy, ends_at
        )

    def client_authority(self, connection: TlsConnection) -> str:
        """Returns the digest of the CA of a user's certificate on a connection; empty if it is of no user."""
        try:
            certificate = parse_certificate(connection.getpeercert(True) or b"")
        except UNREADABLE:
            return ""
        chain = _verified_chain(connection)
        return self._clients.signer(certificate, chain)

    def trusts_users_of(self, authority: str) -> bool:
        """Returns whether a CA is trusted now for certificates of users. authority: its digest."""
        return authority in self._clients.by_digest

    def _user(self, described: Mapping[str, Any], certificate: x509.Certificate) -> UserInfo | None:
        """Returns the user that a certificate names; None if it names none. Raises ValueError."""
        user = user_of(described)
        if user is None:
            return None
        credential = f"X509SHA256={certificate.fingerprint(hashes.SHA256()).hex()}"
        extra = ((f"{self._extra_prefix}/{CREDENTIAL_ID}", (credential,)),)
        return UserInfo(user.name, user.groups, _uid(certificate), extra)


class _Authorities:
    """The CAs of one kind. by_digest: by the digests of their certificates."""

    def __init__(self, pem: bytes) -> None:
        self._certificates = parse_pem_certificates(pem) if pem.strip() else []
        self._encoded = frozenset(each.public_bytes(Encoding.DER) for each in self._certificates)
        self.by_digest = {each.fingerprint(hashes.SHA256()).hex(): each for each in self._certificates}

    def have_signed(self, certificate: x509.Certificate, chain: Iterable[bytes]) -> bool:
        """Returns whether one of the CAs has signed a certificate.

        chain: the verified chain, beginning with the certificate itself; empty if unknown.
        """
        if not self._encoded.isdisjoint(chain):
            return True
        return any(_has_issued(each, certificate) for each in self._certificates)

    def signer(self, certificate: x509.Certificate, chain: Collection[bytes]) -> str:
        """Returns the digest of the CA that has signed a certificate; empty if none has. chain: as above."""
        for digest, each in self.by_digest.items():
            if each.public_bytes(Encoding.DER) in chain or _has_issued(each, certificate):
                return digest
        return ""


def _has_issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, *UNREADABLE):
        return False
    return True


def _verified_chain(connection: TlsConnection) -> Sequence[bytes]:
    """Returns the verified chain of the client's certificate, each certificate as DER.

    A resumed session has none: then only the direct issuer of the certificate counts.
    """
    public = getattr(connection, "get_verified_chain", None)  # since Python 3.13
    if public is not None:
        return tuple(public())
    private = getattr(connection, "_sslobj", None)
    chain = private.get_verified_chain() if private is not None else None
    return tuple(ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in chain or ())


def _uid(certificate: x509.Certificate) -> str:
    """Returns the uid in a certificate's subject; empty if there is none. Raises ValueError.

    Source: k8s.io/apiserver, pkg/authentication/request/x509, parseUIDFromCert.
    """
    found = certificate.subject.get_attributes_for_oid(_UID)
    if not found:
        return ""
    if len(found) > 1:
        raise ValueError("expected 1 UID, but found multiple")
    (uid,) = (each.value for each in found)
    if not isinstance(uid, str) or not uid:
        raise ValueError("UID cannot be an empty string")
    return uid


def _common_name(described: Mapping[str, Any]) -> str:
    """Returns the last common name of a certificate's subject, as Go does; empty if it has none."""
    names = [value for each in described.get("subject", ()) for name, value in each if name == "commonName"]
    return names[-1] if names else ""
