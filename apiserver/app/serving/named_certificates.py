"""Chooses a certificate by the server name in a handshake, as Go and kube-apiserver do.

Sources: crypto/tls, Config.getCertificate; k8s.io/apiserver, pkg/server/dynamiccertificates.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from cryptography import x509
from cryptography.x509.oid import NameOID

from apiserver.golang.certificates import NO_EXTENSION
from apiserver.golang.x509_parsing import UNREADABLE, parse_pem_certificate
from apiserver.meta.names import dns_subdomain

T = TypeVar("T")


class SniCertificates(Generic[T]):
    """Chooses certificates by the server name in a handshake (SNI).

    named: the certificates in the order of the flags, each with the names given for it.
    default: the choice for other names, and its certificate.
    """

    def __init__(
        self, default: tuple[T, x509.Certificate], named: Sequence[tuple[T, Sequence[str], x509.Certificate]]
    ) -> None:
        self.default = default[0]
        extracted: dict[str, T] = {}
        explicit: dict[str, T] = {}
        for choice, names, certificate in named:
            into = explicit if names else extracted
            for name in names or _extracted_names(certificate):
                into.setdefault(name.lower(), choice)
        self._by_name = extracted | explicit
        self._alternative_names = [(choice, _dns_names(leaf)) for choice, _, leaf in named]
        self._alternative_names.insert(0, (default[0], _dns_names(default[1])))
        self.has_addresses = any(map(_is_address, self._by_name))

    def choose(self, name: str) -> T:
        """Returns the choice for a server name, or for an address if the client sends no name."""
        name = name.lower()
        pattern = _wildcard(name)
        for each in (name, pattern):
            if each in self._by_name:
                return self._by_name[each]
        for choice, names in self._alternative_names:
            if name in names or pattern in names:
                return choice
        return self.default


def leaf_of(chain: bytes) -> x509.Certificate:
    """Returns the first certificate of a chain in PEM, all of which can be read."""
    return parse_pem_certificate(chain)


def _wildcard(name: str) -> str:
    """Returns the pattern that a name matches, with its first label replaced."""
    _, dot, rest = name.partition(".")
    return f"*{dot}{rest}"


def _extracted_names(certificate: x509.Certificate) -> Iterable[str]:
    """Yields the names, other than addresses, by which a certificate is chosen that was given none."""
    for name in _common_names(certificate)[-1:]:
        is_domain = name == "*" or not dns_subdomain(name.removeprefix("*."))
        if is_domain and not _is_address(name):
            yield name
    yield from _dns_names(certificate)


def _common_names(certificate: x509.Certificate) -> list[str]:
    try:
        return [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except UNREADABLE:  # It may be in an encoding that OpenSSL knows, and `cryptography` does not.
        return []


def _dns_names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except NO_EXTENSION:
        return frozenset()
    return frozenset(each.lower() for each in names.get_values_for_type(x509.DNSName))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
