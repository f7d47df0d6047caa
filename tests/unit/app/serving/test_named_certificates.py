"""Which certificate a client is shown (`--tls-sni-cert-key`).

Source: k8s.io/apiserver, pkg/server/dynamiccertificates/named_certificates_test.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from apiserver.app.serving.named_certificates import SniCertificates

KEY: Final = ec.generate_private_key(ec.SECP256R1())


def certificate(common_name: str, *dns_names: str) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else [])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, KEY.public_key(), 1, now, now + timedelta(hours=1))
    if dns_names:
        names = x509.SubjectAlternativeName([x509.DNSName(each) for each in dns_names])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(KEY, hashes.SHA256())


def unreadable_name(common_name: str) -> x509.Certificate:
    """Returns a certificate whose name is in Latin-1, which OpenSSL loads."""
    name = common_name.encode()
    utf8, latin1 = (bytes([tag, len(name)]) for tag in (0x0C, 0x14))
    der = certificate(common_name).public_bytes(Encoding.DER)
    return x509.load_der_x509_certificate(der.replace(utf8 + name, latin1 + b"\xe4" + name[1:]))


DEFAULT: Final = certificate("apiserver", "kubernetes", "*.default.example")
Named = tuple[str, Sequence[str], x509.Certificate]

CHOICES: Final[dict[str, tuple[list[Named], dict[str, str]]]] = {
    "none are given": ([], {"a.example": "default", "": "default"}),
    "by names in the certificate": (
        [("a", (), certificate("a.example", "b.example"))],
        {"a.example": "a", "b.example": "a", "A.Example": "a", "c.example": "default", "": "default"},
    ),
    "names that are given are instead of those in the certificate, for others but its own": (
        [
            ("a", ("x.example",), certificate("a.example")),
            ("b", (), certificate("", "x.example", "y.example")),
        ],
        {"x.example": "a", "a.example": "default", "y.example": "b"},
    ),
    "names that are given go before others": (
        [("a", (), certificate("", "x.example")), ("b", ("X.example",), certificate("b"))],
        {"x.example": "b"},
    ),
    "none, if its common name is in an encoding that cannot be read": (
        [("a", (), unreadable_name("a.example"))],
        {"a.example": "default"},
    ),
    "of two the first": (
        [("a", (), certificate("", "x.example")), ("b", (), certificate("", "x.example"))],
        {"x.example": "a"},
    ),
    "of two that are given the first": (
        [("a", ("x.example",), certificate("a")), ("b", ("x.example",), certificate("b"))],
        {"x.example": "a"},
    ),
    "a wildcard is one label": (
        [("a", ("*.example",), certificate("a"))],
        {"x.example": "a", "x.y.example": "default", "example": "default"},
    ),
    "names without a wildcard go before": (
        [("a", ("*.example",), certificate("a")), ("b", (), certificate("", "x.example"))],
        {"x.example": "b", "y.example": "a"},
    ),
    "the default has its names": (
        [("a", (), certificate("", "kubernetes", "one.default.example"))],
        {"kubernetes": "a", "one.default.example": "a", "two.default.example": "default"},
    ),
    "a common name that is an address is none": (
        [("a", (), certificate("10.0.0.1"))],
        {"10.0.0.1": "default"},
    ),
    "an address that is given": (
        [("a", ("10.0.0.1", "::1"), certificate("a"))],
        {"10.0.0.1": "a", "::1": "a", "10.0.0.2": "default"},
    ),
    "a common name that is none of a host": ([("a", (), certificate("a b"))], {"a b": "default"}),
    "any name of one label": ([("a", (), certificate("*"))], {"x": "a", "x.example": "default"}),
}


@pytest.mark.parametrize(("named", "chosen"), CHOICES.values(), ids=CHOICES)
def test_which_is_chosen(named: list[Named], chosen: dict[str, str]) -> None:
    choices = SniCertificates(("default", DEFAULT), named)
    assert {name: choices.choose(name) for name in chosen} == chosen


def test_addresses_of_clients_matter_only_if_any_is_named() -> None:
    assert not SniCertificates(("d", DEFAULT), [("a", ("a.example",), DEFAULT)]).has_addresses
    assert SniCertificates(("d", DEFAULT), [("a", ("a.example", "::1"), DEFAULT)]).has_addresses
