"""How certificates name the CA that has signed them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtensionOID

from apiserver.app.serving.named_certificates import SniCertificates
from apiserver.golang.certificates import authority_key_identifier

KEY: Final = ec.generate_private_key(ec.SECP256R1())
# An alternative name of a kind that nobody uses, and what is none.
UNREADABLE: Final = (b"\x30\x02\xa3\x00", b"junk")


def certificate(names: bytes) -> x509.Certificate:
    now = datetime.now(UTC).replace(microsecond=0)
    builder = x509.CertificateBuilder(x509.Name([]), x509.Name([]), KEY.public_key(), 1)
    extension = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, names)
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return builder.add_extension(extension, critical=False).sign(KEY, hashes.SHA256())


@pytest.mark.parametrize("names", UNREADABLE)
def test_what_cannot_be_read_of_a_certificate_is_not_in_it(names: bytes) -> None:
    found = certificate(names)
    expected = x509.SubjectKeyIdentifier.from_public_key(KEY.public_key()).digest
    assert authority_key_identifier(found).key_identifier == expected
    assert SniCertificates(("a", found), [("b", (), found)]).choose("c") == "a"
