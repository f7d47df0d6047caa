"""Issues the certificate for a request. Pure, except for the random serial number.

The certificate has the request's public key, the usual parts of its subject, and its names of hosts,
addresses, mail boxes and URIs. All other fields are decided here: no request makes a CA.
Source: kubernetes, pkg/controller/certificates/authority; crypto/x509, CreateCertificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from apiserver.catalogue.certificates.signers import alternative_names
from apiserver.controllers.certificate_requests.requests import UnusableAuthority
from apiserver.golang.certificates import authority_key_identifier
from apiserver.golang.x509_parsing import UNREADABLE, parse_pem_certificate

# Clients' clocks may be a little behind.
BACKDATE: Final = timedelta(minutes=5)
# What is valid for less is not made shorter by that.
SHORT: Final = timedelta(hours=8)
DURATION_MIN: Final = timedelta(minutes=10)

# In the order in which Go writes them; what is not among them is dropped.
_SUBJECT: Final = (
    NameOID.COUNTRY_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.POSTAL_CODE,
    NameOID.COMMON_NAME,
    NameOID.SERIAL_NUMBER,
)
# Of which Go knows one only.
_SINGLE: Final = (NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER)
_NAMES: Final = (x509.DNSName, x509.RFC822Name, x509.IPAddress, x509.UniformResourceIdentifier)
_EXTENDED_USAGES: Final = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": ObjectIdentifier("2.16.840.1.113730.4.1"),
}


class Authority(NamedTuple):
    """A CA that signs certificates. key: a private key of `cryptography`."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

    @classmethod
    def of_pem(cls, certificate: bytes, key: bytes) -> Authority:
        """Returns the CA of a certificate and its private key. Raises UnusableAuthority."""
        try:
            found = parse_pem_certificate(certificate)
            private = serialization.load_pem_private_key(key, None)
        except UNREADABLE:
            raise UnusableAuthority("no CA certificate with its private key was found") from None
        if not isinstance(
            private, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey, ed25519.Ed25519PrivateKey)
        ):
            raise UnusableAuthority("the private key is of a kind that cannot sign certificates")
        if private.public_key() != found.public_key():
            raise UnusableAuthority("the private key does not match the CA certificate")
        return cls(found, private)

    def issue(
        self,
        request: x509.CertificateSigningRequest,
        usages: Sequence[str],
        duration: timedelta,
        now: datetime,
    ) -> bytes:
        """Returns a certificate as PEM, valid for a duration but not for longer than the CA.

        Raises UnusableAuthority, NotForSigner.
        """
        ends = self.certificate.not_valid_after_utc
        if now >= ends:
            raise UnusableAuthority(f"the CA has expired: NotAfter={ends}")
        until = now + (duration if duration < SHORT else duration - BACKDATE)
        subject = _issued_subject(request.subject)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.certificate.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATE)
            .not_valid_after(min(until, ends))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(authority_key_identifier(self.certificate), critical=False)
        )
        if (key_usage := _key_usage(usages)) is not None:
            builder = builder.add_extension(key_usage, critical=True)
        if extended := sorted(
            {_EXTENDED_USAGES[each] for each in usages if each in _EXTENDED_USAGES},
            key=lambda each: each.dotted_string,
        ):
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        if names := [each for each in alternative_names(request) if isinstance(each, _NAMES)]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=not list(subject))
        return builder.sign(self.key, self._hash()).public_bytes(serialization.Encoding.PEM)

    def _hash(self) -> hashes.SHA256 | hashes.SHA384 | hashes.SHA512 | None:
        match self.key:
            case ed25519.Ed25519PrivateKey():
                return None
            case ec.EllipticCurvePrivateKey(key_size=384):
                return hashes.SHA384()
            case ec.EllipticCurvePrivateKey(key_size=521):
                return hashes.SHA512()
            case _:
                return hashes.SHA256()


def duration_of(expiration_s: int | None, longest: timedelta) -> timedelta:
    """Returns for how long a certificate is valid. expiration_s: the requested duration, if any."""
    if expiration_s is None:
        return longest
    # In seconds: a number of 32 bits of them may be more than a timedelta has room for.
    return timedelta(seconds=min(max(expiration_s, DURATION_MIN.total_seconds()), longest.total_seconds()))


def now_utc(seconds: float) -> datetime:
    """Returns a time for certificates, without fractions."""
    return datetime.fromtimestamp(int(seconds), UTC)


def _issued_subject(asked: x509.Name) -> x509.Name:
    parts = []
    for kind in _SUBJECT:
        found = asked.get_attributes_for_oid(kind)
        if kind in _SINGLE:
            found = found[-1:]
        unique = list(dict.fromkeys(found))
        if unique:
            parts.append(x509.RelativeDistinguishedName(unique))
    return x509.Name(parts)


def _key_usage(usages: Sequence[str]) -> x509.KeyUsage | None:
    """Returns the key usage of a certificate; None if no requested usage is one."""
    agreement = "key agreement" in usages
    flags = {
        "digital_signature": "digital signature" in usages or "signing" in usages,
        "content_commitment": "content commitment" in usages,
        "key_encipherment": "key encipherment" in usages,
        "data_encipherment": "data encipherment" in usages,
        "key_agreement": agreement,
        "key_cert_sign": "cert sign" in usages,
        "crl_sign": "crl sign" in usages,
        # Without key agreement these two have no meaning.
        "encipher_only": agreement and "encipher only" in usages,
        "decipher_only": agreement and "decipher only" in usages,
    }
    return x509.KeyUsage(**flags) if any(flags.values()) else None
