"""The rules of Kubernetes' own signers. Pure.

Source: kubernetes, pkg/controller/certificates/signer, pkg/apis/certificates/helpers.go and
pkg/apis/core/validation, ValidateSignerName.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from apiserver.catalogue.common.signer_names import (
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
    NotForSigner,
)
from apiserver.golang.pem import pem_blocks
from apiserver.golang.x509_parsing import UNREADABLE, parse_request

_NODES: Final = "system:nodes"
_NODE_PREFIX: Final = "system:node:"
_OPTIONAL: Final = "key encipherment"  # keys of elliptic curves cannot do that
_RSA_BITS_MIN: Final = 1024


def read_request(pem: bytes) -> x509.CertificateSigningRequest:
    """Returns the request in a block of PEM. Raises NotForSigner."""
    block = next(pem_blocks(pem), None)
    if block is None or block.label != "CERTIFICATE REQUEST":
        raise NotForSigner("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = parse_request(block.content)
        is_signed = request.is_signature_valid
        _ = request.subject  # which is read only now
    except UNREADABLE as error:
        raise NotForSigner(f"unable to parse certificate request: {error}") from None
    if not is_signed:
        raise NotForSigner("unable to verify certificate request signature")
    alternative_names(request)  # also if the signer does not care
    match request.public_key():
        case rsa.RSAPublicKey() as key if key.key_size >= _RSA_BITS_MIN:
            pass
        case ec.EllipticCurvePublicKey() | ed25519.Ed25519PublicKey():
            pass
        case _:
            raise NotForSigner("the public key is of a kind that is not signed")
    return request


def common_name(request: x509.CertificateSigningRequest) -> str:
    """Returns the last common name, as Go does."""
    names = _subject(request, NameOID.COMMON_NAME)
    return names[-1] if names else ""


def check_kubelet_client(request: x509.CertificateSigningRequest, usages: Sequence[str]) -> None:
    """Check a request for `kubernetes.io/kube-apiserver-client-kubelet`. Raises NotForSigner."""
    _check_organization(request)
    names = alternative_names(request)
    for kind, text in (
        (x509.DNSName, "DNS"),
        (x509.RFC822Name, "Email"),
        (x509.IPAddress, "IP"),
        (x509.UniformResourceIdentifier, "URI"),
    ):
        if any(isinstance(each, kind) for each in names):
            raise NotForSigner(f"{text} subjectAltNames are not allowed")
    _check_node_name(request)
    _check_usages(usages, {"digital signature", _OPTIONAL, "client auth"})


def check_kubelet_serving(request: x509.CertificateSigningRequest, usages: Sequence[str]) -> None:
    """Check a request for `kubernetes.io/kubelet-serving`. Raises NotForSigner."""
    _check_organization(request)
    names = alternative_names(request)
    if not any(isinstance(each, (x509.DNSName, x509.IPAddress)) for each in names):
        raise NotForSigner("DNS or IP subjectAltName is required")
    for kind, text in ((x509.RFC822Name, "Email"), (x509.UniformResourceIdentifier, "URI")):
        if any(isinstance(each, kind) for each in names):
            raise NotForSigner(f"{text} subjectAltNames are not allowed")
    _check_usages(usages, {"digital signature", _OPTIONAL, "server auth"})
    _check_node_name(request)


def _check_client(request: x509.CertificateSigningRequest, usages: Sequence[str]) -> None:
    """Check a request for a client certificate. Raises NotForSigner."""
    for usage in usages:
        if usage not in ("digital signature", _OPTIONAL, "client auth"):
            raise NotForSigner(f"invalid usage for client certificate: {usage}")
    if "client auth" not in usages:
        raise NotForSigner("missing required usage for client certificate: client auth")


def _check_nothing(request: x509.CertificateSigningRequest, usages: Sequence[str]) -> None:
    """Accepts every request: requests for this signer are older than signers, and had no requirements."""


Check: TypeAlias = Callable[[x509.CertificateSigningRequest, Sequence[str]], None]
# What each signer requires.
SIGNERS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        KUBE_APISERVER_CLIENT: _check_client,
        KUBELET_CLIENT: check_kubelet_client,
        KUBELET_SERVING: check_kubelet_serving,
        LEGACY_UNKNOWN: _check_nothing,
    }
)


def alternative_names(request: x509.CertificateSigningRequest) -> Sequence[x509.GeneralName]:
    """Returns the subject's alternative names. Raises NotForSigner."""
    try:
        return list(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return ()
    except (*UNREADABLE, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise NotForSigner(f"unable to parse certificate request: {error}") from None


def _subject(request: x509.CertificateSigningRequest, kind: x509.ObjectIdentifier) -> list[str]:
    return [str(each.value) for each in request.subject.get_attributes_for_oid(kind)]


def _check_organization(request: x509.CertificateSigningRequest) -> None:
    if _subject(request, NameOID.ORGANIZATION_NAME) != [_NODES]:
        raise NotForSigner(f"subject organization is not {_NODES}")


def _check_node_name(request: x509.CertificateSigningRequest) -> None:
    if not common_name(request).startswith(_NODE_PREFIX):
        raise NotForSigner(f"subject common name does not begin with {_NODE_PREFIX}")


def _check_usages(usages: Sequence[str], expected: set[str]) -> None:
    if {*usages, _OPTIONAL} != expected:
        raise NotForSigner(f"usages did not match [{' '.join(sorted(expected))}]")
