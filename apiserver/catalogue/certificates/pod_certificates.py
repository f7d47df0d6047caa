"""Checks the keys and the certificates of PodCertificateRequests. Pure.

This module imports `cryptography`, so `pod_certificate_requests` imports it when a request arrives.

Source: pkg/apis/certificates/validation, ValidatePodCertificateRequest*; KEP-4317 (release 1.36).
"""

from __future__ import annotations

import base64
from email.utils import parseaddr
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from apiserver.catalogue.common.signer_names import POD_CERTIFICATE_S_MIN
from apiserver.golang.pem import CERTIFICATE, pem_blocks
from apiserver.golang.times import ZERO_TIME
from apiserver.golang.x509_parsing import UNREADABLE, parse_certificate, parse_public_key, parse_request
from apiserver.meta import timestamps
from apiserver.meta.field_errors import INVALID, Errors, FieldError, invalid, required, too_long
from apiserver.meta.names import byte_length
from apiserver.meta.vocabulary import Document

_KEY_BYTES_MAX: Final = 10 * 1024
_CHAIN_BYTES_MAX: Final = 100 * 1024
# How long before its end, and after its beginning, a certificate is refreshed at the earliest.
_REFRESH_MARGIN_S: Final = 600
_RSA_BITS: Final = (3_072, 4_096)
_CURVES: Final = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)

_PKIX: Final = "spec.pkixPublicKey"
_PROOF: Final = "spec.proofOfPossession"
_STUB: Final = "spec.stubPKCS10Request"
_CHAIN: Final = "status.certificateChain"
_UNPROVEN: Final = "could not verify proof-of-possession signature"


def key_errors(spec: Document) -> Errors:
    """Checks the public key, and the proof of the private one: a certificate request, or the form before
    1.36.
    """
    stub, pkix, proof = (
        _bytes(spec, field) for field in ("stubPKCS10Request", "pkixPublicKey", "proofOfPossession")
    )
    for path, content in ((_STUB, stub), (_PKIX, pkix), (_PROOF, proof)):
        if len(content) > _KEY_BYTES_MAX:
            return [too_long(path, _KEY_BYTES_MAX)]
    if stub:
        if pkix or proof:
            text = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
            return [_without_value("spec", text)]
        return _stub(stub)
    key = _public_key(pkix)
    if key is None:
        return [invalid(_PKIX, spec.get("pkixPublicKey") or "", "must be a valid PKIX-serialized public key")]
    if problem := _key_problem(key):
        return [_with_text(_PKIX, *problem)]
    return (
        [] if _is_proven(key, spec.get("podUID", "").encode(), proof) else [_without_value(_PROOF, _UNPROVEN)]
    )


def _stub(content: bytes) -> Errors:
    try:
        request = parse_request(content)
        is_signed, key = request.is_signature_valid, request.public_key()
    except UNREADABLE:
        return [_without_value(_STUB, "must be a valid PKCS#10 CSR")]
    if problem := _key_problem(key):
        return [_with_text(_STUB, *problem)]
    return [] if is_signed else [_without_value(_STUB, "could not verify the signature of the CSR")]


def _bytes(spec: Document, field: str) -> bytes:
    return base64.b64decode(spec.get(field) or "")


def _public_key(content: bytes) -> PublicKeyTypes | None:
    try:
        return parse_public_key(content)
    except UNREADABLE:
        return None


def _key_problem(key: PublicKeyTypes) -> tuple[str, str] | None:
    """Returns Kubernetes' text about a key that it does not accept, and the reason."""
    match key:
        case ed25519.Ed25519PublicKey():
            return None
        case ec.EllipticCurvePublicKey():
            if isinstance(key.curve, _CURVES):
                return None
            return f'"curve {key.curve.name}"', "elliptic public keys must use curve P256 or P384"
        case rsa.RSAPublicKey():
            bits = (key.key_size + 7) // 8 * 8
            return None if bits in _RSA_BITS else (f'"{bits}-bit modulus"', _RSA_TEXT)
        case _:
            return "<key>", "unknown public key type; supported types are Ed25519, ECDSA, and RSA"


_RSA_TEXT: Final = "RSA keys must have modulus size 3072 or 4096"


def _is_proven(key: PublicKeyTypes, message: bytes, signature: bytes) -> bool:
    """Returns whether the private key signed a message. The key is of an accepted kind."""
    sha256 = hashes.SHA256()
    try:
        match key:
            case ed25519.Ed25519PublicKey():
                key.verify(signature, message)
            case ec.EllipticCurvePublicKey():
                key.verify(signature, message, ec.ECDSA(sha256))
            case rsa.RSAPublicKey():
                key.verify(signature, message, padding.PSS(padding.MGF1(sha256), padding.PSS.AUTO), sha256)
    except InvalidSignature:
        return False
    return True


def chain_errors(status: Document, spec: Document) -> Errors:
    """Checks that a certificate is for the requested key, and is valid for the time in the status."""
    chain = status.get("certificateChain") or ""
    if byte_length(chain) > _CHAIN_BYTES_MAX:
        return [too_long(_CHAIN, _CHAIN_BYTES_MAX)]
    blocks = list(pem_blocks(chain.encode("utf-8", "surrogatepass")))
    if not blocks:
        return [invalid(_CHAIN, chain, "issued certificate chain must contain at least one certificate")]
    if blocks[0].label != CERTIFICATE:
        return [invalid(_CHAIN, chain, _ONLY_CERTIFICATES)]
    leaf = _certificate(blocks[0].content)
    if leaf is None:
        return [invalid(_CHAIN, chain, "leaf certificate does not parse as valid X.509")]
    errors = _alternative_names(leaf)
    wanted = _wanted_key(spec)
    if wanted is None or _der(leaf.public_key()) != _der(wanted):
        text = "leaf certificate was not issued to the requested public key"
        return [*errors, invalid(_CHAIN, chain, text)]
    errors += _times(status, spec, leaf)
    if errors:
        return errors
    for block in blocks[1:]:
        if block.label != CERTIFICATE:
            # Kubernetes spells it so here.
            return [invalid(_CHAIN, chain, _ONLY_CERTIFICATES.replace("CERTIFICATE", "CERTFICATE"))]
        if _certificate(block.content) is None:
            return [invalid(_CHAIN, chain, "intermediate certificate does not parse as valid X.509")]
    return []


_ONLY_CERTIFICATES: Final = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"


def _certificate(content: bytes) -> x509.Certificate | None:
    try:
        certificate = parse_certificate(content)
        certificate.public_key()  # which is read only now, as extensions are
        _ = certificate.extensions
        # Python has no year 0.
        _ = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except (*UNREADABLE, x509.DuplicateExtension):
        return None
    return certificate


def _wanted_key(spec: Document) -> PublicKeyTypes | None:
    if stub := _bytes(spec, "stubPKCS10Request"):
        try:
            return parse_request(stub).public_key()
        except UNREADABLE:
            return None
    return _public_key(_bytes(spec, "pkixPublicKey"))


def _der(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _alternative_names(leaf: x509.Certificate) -> Errors:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    errors: Errors = []
    for name in found.get_values_for_type(x509.DNSName):
        if not name:
            errors.append(invalid(_CHAIN, name, "leaf certificate should not contain empty DNSName"))
        if ".." in name:
            errors.append(invalid(_CHAIN, name, "leaf certificate's DNSName should not contain '..'"))
        if name.startswith(".") or name.endswith("."):
            text = "leaf certificate's DNSName should not start or end with '.'"
            errors.append(invalid(_CHAIN, name, text))
    for address in found.get_values_for_type(x509.RFC822Name):
        if "@" not in parseaddr(address)[1].strip("@"):
            text = "leaf certificate should not contain invalid EmailAddress"
            errors.append(invalid(_CHAIN, address, text))
    return errors


def _times(status: Document, spec: Document, leaf: x509.Certificate) -> Errors:
    # A time that is null was written as Go's zero time, and is set.
    times = {field: status[field] or ZERO_TIME for field in _TIMES if field in status}
    if missing := [required(f"status.{field}", text) for field, text in _TIMES.items() if field not in times]:
        return missing
    begin, end, refresh = (timestamps.from_text(times[field]) or 0.0 for field in _TIMES)
    is_from, is_until = leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp()
    for field, time, of_leaf in (("notBefore", begin, is_from), ("notAfter", end, is_until)):
        if time != of_leaf:
            name = field[0].upper() + field[1:]
            text = f"must be set to the {name} time encoded in the leaf certificate"
            return [invalid(f"status.{field}", times[field], text)]
    lifetime = is_until - is_from
    longest = spec.get("maxExpirationSeconds") or 0
    problem = ""
    if lifetime < POD_CERTIFICATE_S_MIN:
        problem = "leaf certificate lifetime must be >= 1 hour"
    elif lifetime > longest:
        problem = f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({longest})"
    if problem:
        return [invalid(_CHAIN, int(lifetime) * _NS_IN_S, problem)]
    if refresh < begin + _REFRESH_MARGIN_S:
        problem = "must be at least 10 minutes after status.notBefore"
    elif refresh > end - _REFRESH_MARGIN_S:
        problem = "must be at least 10 minutes before status.notAfter"
    return [invalid("status.beginRefreshAt", times["beginRefreshAt"], problem)] if problem else []


# Errors show a duration as Go's JSON does.
_NS_IN_S: Final = 1_000_000_000
_CONSISTENT: Final = "must be present and consistent with the issued certificate"
_TIMES: Final = {
    "notBefore": _CONSISTENT,
    "notAfter": _CONSISTENT,
    "beginRefreshAt": "must be present and in the range [notbefore+10min, notafter-10min]",
}


def _with_text(path: str, shown: str, detail: str) -> FieldError:
    """Returns an error that shows a value without quotes."""
    return FieldError(path, INVALID, f"Invalid value: {shown}: {detail}")


def _without_value(path: str, detail: str) -> FieldError:
    return FieldError(path, INVALID, f"Invalid value: {detail}")
