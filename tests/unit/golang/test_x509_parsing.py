"""Certificates of others are read as Go's crypto/x509 reads them, and nobody is warned of what they are like.

Warnings are errors in these tests, as in those of many who have a server in the process of their tests.
"""

from __future__ import annotations

import base64
import warnings
from collections.abc import Iterator
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import dh
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from apiserver.auth.authn.chain import NO_CERTIFICATE
from apiserver.auth.authn.peer_certificates import PeerCertificates
from apiserver.catalogue.certificates.signers import common_name, read_request
from apiserver.controllers.certificate_requests.cleaning import time_left_s
from apiserver.golang.pem import NoCertificate, bundle_certificates
from apiserver.golang.x509_parsing import (
    parse_certificate,
    parse_pem_certificate,
    parse_pem_certificates,
    parse_public_key,
)
from apiserver.webhooks.tls import client_context
from tests.support.certificates import UnusualAuthority, ends_in_year_0

# Node names have up to 253 characters; a common name, by X.520, 64.
LONG: Final = f"system:node:{'n' * 100}.example.com"
AUTHORITY: Final = UnusualAuthority()
PLAIN: Final = AUTHORITY.certificate
ZERO: Final = AUTHORITY.numbered(PLAIN, 0)
NEGATIVE: Final = AUTHORITY.numbered(PLAIN, -1)
LONG_NAME: Final = AUTHORITY.sign(LONG).public_bytes(Encoding.DER)
YEAR_0: Final = ends_in_year_0(PLAIN.public_bytes(Encoding.DER))


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    """As somebody sets them who comes after the server has."""
    parse_certificate(PLAIN.public_bytes(Encoding.DER))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def as_pem(der: bytes) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n%s-----END CERTIFICATE-----\n" % base64.encodebytes(der)


TAKEN: Final = {"serial number 0": (ZERO, 0), "a long name": (LONG_NAME, 1)}


@pytest.mark.parametrize(("der", "serial"), TAKEN.values(), ids=TAKEN)
def test_what_go_takes_is_read_without_a_word(der: bytes, serial: int) -> None:
    pem = as_pem(der)
    for each in (parse_certificate(der), parse_pem_certificate(pem), *parse_pem_certificates(pem)):
        assert each.public_bytes(Encoding.DER) == der
    assert bundle_certificates(pem) == [der]
    client_context(base64.b64encode(pem).decode())


def test_a_serial_number_below_zero_is_refused() -> None:
    pem = as_pem(NEGATIVE)
    for parse, content in (
        (parse_certificate, NEGATIVE),
        (parse_pem_certificate, pem),
        (parse_pem_certificates, pem),
    ):
        with pytest.raises(ValueError, match=r"^negative serial number$"):
            parse(content)
    with pytest.raises(NoCertificate, match=r"^failed to parse certificate: negative serial number$"):
        bundle_certificates(pem)
    assert bundle_certificates(pem + as_pem(ZERO)) == [ZERO]


def test_other_warnings_are_what_they_were() -> None:
    parse_certificate(ZERO)
    with pytest.raises(UserWarning, match="something else"):
        warnings.warn("something else", stacklevel=1)


def test_the_filter_is_put_in_once() -> None:
    parse_certificate(ZERO)
    known = list(warnings.filters)
    parse_certificate(ZERO)
    assert list(warnings.filters) == known
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_certificate(ZERO)
        assert (warnings.filters[0], warnings.filters.count(known[0])) == (known[0], 1)


# RFC 3526, group 14.
_MODP_2048: Final = (
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD"
    "EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED"
    "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F"
    "83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B"
    "E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA0510"
    "15728E5A8AACAA68FFFFFFFFFFFFFFFF"
)


def test_a_key_for_diffie_hellman() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = dh.DHPublicNumbers(5, dh.DHParameterNumbers(int(_MODP_2048, 16), 2))
        der = numbers.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert parse_public_key(der) is not None


def test_a_request_of_a_long_name() -> None:
    assert common_name(read_request(AUTHORITY.request(LONG))) == LONG


class Connection:
    """One on which the client has shown a certificate."""

    def __init__(self, der: bytes) -> None:
        self._der = der

    def getpeercert(self, binary_form: Any) -> bytes:
        return self._der


CLIENTS: Final = {
    "a long name": (LONG_NAME, LONG),
    "serial number 0": (AUTHORITY.numbered(AUTHORITY.sign("zero"), 0), "zero"),
}


@pytest.mark.parametrize(("der", "name"), CLIENTS.values(), ids=CLIENTS)
def test_clients_are_who_their_certificates_say(der: bytes, name: str) -> None:
    clients = PeerCertificates(as_pem(PLAIN.public_bytes(Encoding.DER)), b"", "example.com")
    described = {"subject": ((("commonName", name),),)}
    user = clients.of(described, Connection(der)).user
    assert user is not None
    assert user.name == name


UNREADABLE: Final = {"a negative serial number": NEGATIVE, "the year 0": YEAR_0}


@pytest.mark.parametrize("der", UNREADABLE.values(), ids=UNREADABLE)
def test_who_shows_what_cannot_be_read_has_shown_nothing(der: bytes) -> None:
    clients = PeerCertificates(as_pem(PLAIN.public_bytes(Encoding.DER)), b"", "example.com")
    assert clients.of({"subject": ((("commonName", "a"),),)}, Connection(der)) == NO_CERTIFICATE


def test_a_certificate_whose_end_python_has_not_never_expires() -> None:
    """The request that it was issued for goes as all decided ones go."""
    assert parse_certificate(YEAR_0).public_bytes(Encoding.DER) == YEAR_0
    approved = {"type": "Approved"}
    status = {"conditions": [approved], "certificate": base64.b64encode(as_pem(YEAR_0)).decode()}
    assert time_left_s({"metadata": {}, "status": status}, now=0.0) is None
