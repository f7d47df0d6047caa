"""Parses PEM as Go's encoding/pem does, and CA bundles as Go's crypto/x509 does.

Functions that look into certificates import `cryptography`: 10 MB and some 50 ms, which an idle server can do
without.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

CERTIFICATE: Final = "CERTIFICATE"

_BEGIN: Final = b"-----BEGIN "
_END: Final = b"-----END "
_DASHES: Final = b"-----"


class PemBlock(NamedTuple):
    """A PEM block. has_headers: whether lines like `Proc-Type: 4,ENCRYPTED` precede the content."""

    label: str
    content: bytes
    has_headers: bool


def pem_blocks(data: bytes) -> Iterator[PemBlock]:
    """Yields the blocks of a file. Other text and broken blocks are skipped.

    Lines may end as on Windows, and with spaces and tabs.
    """
    label: bytes | None = None  # of the block that has begun
    body: list[bytes] = []
    has_headers = False
    for raw in data.split(b"\n"):
        line = raw.removesuffix(b"\r").rstrip(b" \t")
        if line.startswith(_BEGIN) and line.endswith(_DASHES):
            label, body, has_headers = line[len(_BEGIN) : -len(_DASHES)], [], False
        elif label is None:
            continue
        elif line.startswith(_END):
            content = _content(body) if line == _END + label + _DASHES else None
            if content is not None:
                yield PemBlock(label.decode("utf-8", "replace"), content, has_headers)
            label = None
        elif b":" in line and not body:
            has_headers = True
        else:
            body.append(line)


def _content(lines: Sequence[bytes]) -> bytes | None:
    text = b"".join(lines).translate(None, b" \t\r")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None


def first_expiry(pem: bytes) -> float:
    """Returns when the first of some certificates expires, in seconds since 1970.

    Raises ValueError if there is none, or one is invalid.
    """
    return min(each.not_valid_after_utc.timestamp() for each in _certificates(pem))


def certificates_in_der(pem: bytes) -> bytes:
    """Returns certificates one after the other in DER, as OpenSSL takes them.

    They are those that `first_expiry` looks into, which need not be written as Go requires.
    Raises ValueError if there is none, or one is invalid.
    """
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(each.public_bytes(Encoding.DER) for each in _certificates(pem))


def _certificates(pem: bytes) -> list[Certificate]:
    """Parse certificates. Raises ValueError if there is none, or one is invalid."""
    from apiserver.golang.x509_parsing import UNREADABLE, parse_pem_certificates

    try:
        return parse_pem_certificates(pem)
    except UNREADABLE:
        raise ValueError("a certificate is missing or invalid") from None


class NoCertificate(ValueError):
    """A CA bundle without certificates. The message is for the client."""


def bundle_certificates(bundle: bytes) -> list[bytes]:
    """Returns the certificates of a CA bundle in DER, without invalid ones.

    Raises NoCertificate.
    Sources: crypto/x509, CertPool.AppendCertsFromPEM; k8s.io/client-go, transport, rootCertPool.
    """
    from apiserver.golang.x509_parsing import UNREADABLE, parse_certificate

    certificates = []
    problem = "unable to parse bytes as PEM block"
    for block in pem_blocks(bundle):
        if block.label != CERTIFICATE or block.has_headers:
            continue
        try:
            parse_certificate(block.content)
        except UNREADABLE as error:
            problem = f"failed to parse certificate: {error}"
        else:
            certificates.append(block.content)
    if not certificates:
        raise NoCertificate(problem)
    return certificates
