"""Who is approved, what is signed, what a certificate holds, and when requests are deleted.

https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from apiserver.app.serving.pki import new_ca
from apiserver.catalogue.certificates.certificate_signing_requests import validate_certificate_request
from apiserver.catalogue.certificates.signers import SIGNERS, read_request
from apiserver.catalogue.common.signer_names import (
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    KUBERNETES_SIGNERS,
    LEGACY_UNKNOWN,
    NotForSigner,
)
from apiserver.controllers.certificate_requests.approving import asker, is_decided, permissions_for
from apiserver.controllers.certificate_requests.cleaning import time_left_s
from apiserver.controllers.certificate_requests.issuing import Authority, duration_of
from apiserver.controllers.certificate_requests.requests import UnusableAuthority, with_condition
from apiserver.controllers.certificate_requests.signing import is_to_be_signed
from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document, UserInfo

KEY: Final = ec.generate_private_key(ec.SECP256R1())
NODE: Final = ("system:node:n1", "system:nodes")
DNS: Final = x509.DNSName("n1.example")
ADDRESS: Final = x509.IPAddress(ipaddress.ip_address("10.0.0.1"))
EMAIL: Final = x509.RFC822Name("a@example.com")
URI: Final = x509.UniformResourceIdentifier("https://a.example")
SIGN: Final = "digital signature"
ENCIPHER: Final = "key encipherment"


def subject(common_name: str, *organizations: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    if common_name:
        parts.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    return x509.Name(parts)


def asked(
    name: x509.Name, *names: x509.GeneralName, extensions: Sequence[x509.ExtensionType] = (), key: Any = KEY
) -> bytes:
    """A request as PEM."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    for each in extensions:
        builder = builder.add_extension(each, critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


# ---- what signers sign

Case = tuple[str, bytes, Sequence[str], str]
SIGNED: Final[dict[str, Case]] = {
    "a client": (KUBE_APISERVER_CLIENT, asked(subject("bob", "dev")), ["client auth"], ""),
    "a client, all usages": (
        KUBE_APISERVER_CLIENT,
        asked(subject("bob"), DNS, EMAIL),
        ["client auth", SIGN, ENCIPHER],
        "",
    ),
    "a client that is a server, too": (
        KUBE_APISERVER_CLIENT,
        asked(subject("bob")),
        ["client auth", "server auth"],
        "invalid usage for client certificate: server auth",
    ),
    "a client that signs": (
        KUBE_APISERVER_CLIENT,
        asked(subject("bob")),
        ["client auth", "cert sign"],
        "invalid usage for client certificate: cert sign",
    ),
    "a client that is none": (
        KUBE_APISERVER_CLIENT,
        asked(subject("bob")),
        [SIGN],
        "missing required usage for client certificate: client auth",
    ),
    "a kubelet": (KUBELET_CLIENT, asked(subject(*NODE)), ["client auth", SIGN, ENCIPHER], ""),
    "a kubelet with a key that signs only": (
        KUBELET_CLIENT,
        asked(subject(*NODE)),
        ["client auth", SIGN],
        "",
    ),
    "a kubelet without usages": (
        KUBELET_CLIENT,
        asked(subject(*NODE)),
        ["client auth"],
        "usages did not match [client auth digital signature key encipherment]",
    ),
    "a kubelet in no group": (
        KUBELET_CLIENT,
        asked(subject("system:node:n1")),
        ["client auth", SIGN],
        "subject organization is not system:nodes",
    ),
    "a kubelet in another group, too": (
        KUBELET_CLIENT,
        asked(subject(*NODE, "system:masters")),
        ["client auth", SIGN],
        "subject organization is not system:nodes",
    ),
    "a kubelet that is no node": (
        KUBELET_CLIENT,
        asked(subject("n1", "system:nodes")),
        ["client auth", SIGN],
        "subject common name does not begin with system:node:",
    ),
    "a kubelet as a host": (
        KUBELET_CLIENT,
        asked(subject(*NODE), DNS),
        ["client auth", SIGN],
        "DNS subjectAltNames are not allowed",
    ),
    "a kubelet as an address": (
        KUBELET_CLIENT,
        asked(subject(*NODE), ADDRESS),
        ["client auth", SIGN],
        "IP subjectAltNames are not allowed",
    ),
    "a kubelet with mail": (
        KUBELET_CLIENT,
        asked(subject(*NODE), EMAIL),
        ["client auth", SIGN],
        "Email subjectAltNames are not allowed",
    ),
    "a kubelet with a URI": (
        KUBELET_CLIENT,
        asked(subject(*NODE), URI),
        ["client auth", SIGN],
        "URI subjectAltNames are not allowed",
    ),
    "a kubelet that serves": (
        KUBELET_SERVING,
        asked(subject(*NODE), DNS, ADDRESS),
        ["server auth", SIGN, ENCIPHER],
        "",
    ),
    "a kubelet that serves nowhere": (
        KUBELET_SERVING,
        asked(subject(*NODE)),
        ["server auth", SIGN],
        "DNS or IP subjectAltName is required",
    ),
    "a kubelet that serves, with mail": (
        KUBELET_SERVING,
        asked(subject(*NODE), DNS, EMAIL),
        ["server auth", SIGN],
        "Email subjectAltNames are not allowed",
    ),
    "a kubelet that serves, as a client": (
        KUBELET_SERVING,
        asked(subject(*NODE), DNS),
        ["server auth", "client auth", SIGN],
        "usages did not match [digital signature key encipherment server auth]",
    ),
    "what was asked long ago": (LEGACY_UNKNOWN, asked(subject("x")), ["cert sign", "server auth"], ""),
}


def test_each_of_kubernetes_signers_has_a_rule() -> None:
    assert list(SIGNERS) == list(KUBERNETES_SIGNERS)


@pytest.mark.parametrize(("signer", "pem", "usages", "problem"), SIGNED.values(), ids=SIGNED)
def test_what_each_signer_signs(signer: str, pem: bytes, usages: Sequence[str], problem: str) -> None:
    request = read_request(pem)
    if not problem:
        SIGNERS[signer](request, usages)
        return
    with pytest.raises(NotForSigner) as raised:
        SIGNERS[signer](request, usages)
    assert str(raised.value) == problem


def as_pem(der: bytes) -> bytes:
    body = base64.encodebytes(der).decode()
    return f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n".encode()


def tampered(pem: bytes) -> bytes:
    """The same with another name, which the signature is not for."""
    der = x509.load_pem_x509_csr(pem).public_bytes(serialization.Encoding.DER)
    return as_pem(der.replace(b"alice", b"mallo"))


def with_bytes(pem: bytes, old: bytes, new: bytes) -> bytes:
    """A request with other bytes in it, just as many, that is signed for them."""
    request = x509.load_pem_x509_csr(pem)
    before = request.tbs_certrequest_bytes
    content = before.replace(old, new)
    assert content != before
    assert len(content) == len(before)
    signature = KEY.sign(content, ec.ECDSA(hashes.SHA256()))
    der = request.public_bytes(serialization.Encoding.DER)
    algorithm = der[der.index(before) + len(before) :].removesuffix(request.signature)[:-3]
    bits = b"\x03%c\0%b" % (len(signature) + 1, signature)
    signed = content + algorithm + bits
    return as_pem(b"\x30\x82%b%b" % (len(signed).to_bytes(2), signed))


UNREADABLE: Final = {
    "nothing": b"",
    "a certificate": new_ca("ca")[0],
    "what is no request": b"-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n",
    "a signature of something else": tampered(asked(subject("alice"))),
    "a key of another kind": asked(subject("a"), key=dsa.generate_private_key(1024)),
    "a name that is no text": with_bytes(asked(subject("alice")), b"alice", b"ali\xff\xfe"),
    "an alternative name that is no text": with_bytes(
        asked(subject("a"), x509.DNSName("alice")), b"alice", b"ali\xff\xfe"
    ),
    "an alternative name of a kind that nobody uses": with_bytes(
        asked(subject("a"), x509.DNSName("alice")), b"\x82\x05alice", b"\xa3\x05alice"
    ),
}


@pytest.mark.parametrize("pem", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_signed(pem: bytes) -> None:
    with pytest.raises(NotForSigner):
        read_request(pem)
    encoded = base64.b64encode(pem).decode()
    assert not permissions_for({"spec": {"signerName": KUBELET_CLIENT, "request": encoded}})


def test_a_request_whose_subject_cannot_be_read_is_not_stored() -> None:
    pem = with_bytes(asked(subject("alice")), b"alice", b"ali\xff\xfe")
    spec = {"request": base64.b64encode(pem).decode(), "usages": ["client auth"], "signerName": "a.b/c"}
    (error,) = validate_certificate_request({"spec": spec})
    assert str(error).startswith("spec.request: Invalid value")


# ---- certificates

NOW: Final = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
AUTHORITY: Final = Authority.of_pem(*new_ca("ca"))
YEAR: Final = timedelta(days=365)


def issued(
    pem: bytes, *usages: str, duration: timedelta = YEAR, now: datetime | None = None
) -> x509.Certificate:
    now = now or datetime.now(UTC).replace(microsecond=0)
    return x509.load_pem_x509_certificate(AUTHORITY.issue(read_request(pem), usages, duration, now))


def test_a_certificate_is_what_was_asked_for_within_limits() -> None:
    uid = ObjectIdentifier("1.3.6.1.4.1.57683.2")
    names = [DNS, ADDRESS, EMAIL, URI, x509.RegisteredID(uid)]
    name = x509.Name(
        [
            x509.NameAttribute(uid, "a uid that nobody has given"),
            x509.NameAttribute(NameOID.COMMON_NAME, "not this"),
            *subject("bob", "dev", "ops"),
        ]
    )
    basic = x509.BasicConstraints(ca=True, path_length=None)
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    found = issued(asked(name, *names, extensions=[basic, usage]), "client auth", SIGN)
    found.verify_directly_issued_by(AUTHORITY.certificate)
    assert found.public_key() == KEY.public_key()
    assert found.subject.rfc4514_string() in ("CN=bob,O=dev+O=ops", "CN=bob,O=ops+O=dev")
    extensions = found.extensions
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.CLIENT_AUTH
    ]
    key_usage = extensions.get_extension_for_class(x509.KeyUsage).value
    assert key_usage.digital_signature
    assert not key_usage.key_cert_sign
    assert not key_usage.key_encipherment
    assert list(extensions.get_extension_for_class(x509.SubjectAlternativeName).value) == names[:-1]


def test_a_certificate_names_its_authority_as_that_names_itself() -> None:
    """OpenSSL finds no other one. The identifier need not be a digest of the key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC).replace(microsecond=0)
    own = x509.SubjectKeyIdentifier(b"as it likes")
    builder = x509.CertificateBuilder(subject("ca"), subject("ca"), key.public_key(), 1, now, now + YEAR)
    for extensions, identifier in (
        ([own], own.digest),
        ([], x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest),
    ):
        named = builder
        for each in extensions:
            named = named.add_extension(each, critical=False)
        authority = Authority(named.sign(key, hashes.SHA256()), key)
        pem = authority.issue(read_request(asked(subject("a"))), ["client auth"], YEAR, now)
        found = x509.load_pem_x509_certificate(pem).extensions
        shown = found.get_extension_for_class(x509.AuthorityKeyIdentifier).value
        assert shown.key_identifier == identifier


def test_without_a_subject_the_names_are_critical() -> None:
    found = issued(asked(x509.Name([]), DNS), "server auth")
    assert found.extensions.get_extension_for_class(x509.SubjectAlternativeName).critical


HOUR: Final = timedelta(hours=1)
DURATIONS: Final[dict[str, tuple[int | None, timedelta, timedelta]]] = {
    "what is not said is the longest": (None, YEAR, YEAR),
    "as asked for": (3_600, YEAR, HOUR),
    "not longer than the longest": (2**31 - 1, YEAR, YEAR),
    "not shorter than ten minutes": (1, YEAR, timedelta(minutes=10)),
    "not negative": (-(2**31), YEAR, timedelta(minutes=10)),
}


@pytest.mark.parametrize(("asked_s", "longest", "duration"), DURATIONS.values(), ids=DURATIONS)
def test_how_long_certificates_are_valid(
    asked_s: int | None, longest: timedelta, duration: timedelta
) -> None:
    assert duration_of(asked_s, longest) == duration


@pytest.mark.parametrize(
    ("duration", "until"),
    [(YEAR, YEAR - timedelta(minutes=5)), (HOUR, HOUR), (timedelta(hours=8), timedelta(hours=7, minutes=55))],
)
def test_certificates_begin_before_they_are_issued(duration: timedelta, until: timedelta) -> None:
    """Clocks may be behind. What is valid for long is so for no longer because of that."""
    now = datetime.now(UTC).replace(microsecond=0)
    found = issued(asked(subject("bob")), "client auth", duration=duration, now=now)
    assert found.not_valid_before_utc == now - timedelta(minutes=5)
    assert found.not_valid_after_utc == now + until


def test_no_certificate_outlives_its_authority() -> None:
    ends = AUTHORITY.certificate.not_valid_after_utc
    found = issued(asked(subject("bob")), "client auth", now=ends - HOUR)
    assert found.not_valid_after_utc == ends
    with pytest.raises(UnusableAuthority, match="expired"):
        issued(asked(subject("bob")), "client auth", now=ends)


def test_an_authority_has_its_key() -> None:
    certificate, key = new_ca("ca")
    for one, other in ((certificate, new_ca("ca")[1]), (key, certificate), (b"", b"")):
        with pytest.raises(UnusableAuthority):
            Authority.of_pem(one, other)


# ---- objects


def request(pem: bytes = b"", *conditions: Document, certificate: str = "", **spec: Any) -> Document:
    status: Document = {"conditions": list(conditions)} if conditions else {}
    if certificate:
        status["certificate"] = certificate
    meta = {"name": "r", "creationTimestamp": timestamps.to_text(CREATED_S)}
    return {
        "metadata": meta,
        "spec": {
            "signerName": KUBELET_CLIENT,
            "usages": ["client auth", SIGN],
            "request": base64.b64encode(pem).decode(),
            **spec,
        },
        "status": status,
    }


CREATED_S: Final = 1_700_000_000.0


def condition(kind: str, ago_s: float | None = 0.0, status: str = "True") -> Document:
    at = None if ago_s is None else timestamps.to_text(CREATED_S - ago_s)
    return {"type": kind, "status": status, "lastUpdateTime": at}


APPROVED: Final = condition("Approved")
TO_BE_SIGNED: Final = {
    "approved": (request(b"", APPROVED), True),
    "pending": (request(), False),
    "denied": (request(b"", condition("Denied")), False),
    "approved and denied": (request(b"", APPROVED, condition("Denied")), False),
    "failed": (request(b"", APPROVED, condition("Failed")), False),
    "signed": (request(b"", APPROVED, certificate="eA=="), False),
    "of another signer": (request(b"", APPROVED, signerName="example.com/x"), False),
}


@pytest.mark.parametrize(("found", "is_signed"), TO_BE_SIGNED.values(), ids=TO_BE_SIGNED)
def test_which_requests_are_signed(found: Document, is_signed: bool) -> None:
    assert is_to_be_signed(found) is is_signed


def test_a_condition_is_added_to_those_that_are_there() -> None:
    status = with_condition(request(b"", APPROVED), "Failed", "Reason", "message")
    failed = {"type": "Failed", "status": "True", "reason": "Reason", "message": "message"}
    assert status == {"conditions": [APPROVED, failed]}


NODE_PEM: Final = asked(subject(*NODE))
PERMISSIONS: Final[dict[str, tuple[Document, list[str]]]] = {
    "a node for itself": (request(NODE_PEM, username="system:node:n1"), ["selfnodeclient", "nodeclient"]),
    "somebody for a node": (request(NODE_PEM, username="system:bootstrap:abc"), ["nodeclient"]),
    "a node for another": (request(NODE_PEM, username="system:node:n2"), ["nodeclient"]),
    "somebody for himself": (request(asked(subject("bob", "system:nodes")), username="bob"), []),
    "a node that wants more": (
        request(asked(subject(*NODE, "system:masters")), username="system:node:n1"),
        [],
    ),
    "another signer": (request(NODE_PEM, username="system:node:n1", signerName=KUBE_APISERVER_CLIENT), []),
    "other usages": (request(NODE_PEM, username="system:node:n1", usages=["server auth", SIGN]), []),
    "no request": (request(b"x", username="system:node:n1"), []),
}


@pytest.mark.parametrize(("found", "permissions"), PERMISSIONS.values(), ids=PERMISSIONS)
def test_which_permissions_approve(found: Document, permissions: list[str]) -> None:
    assert [name for name, _ in permissions_for(found)] == permissions


def test_who_asks_is_who_the_server_has_written_in() -> None:
    spec: dict[str, Any] = {"username": "u", "groups": ["g"], "uid": "1", "extra": {"b": ["2", "3"], "a": []}}
    assert asker(request(**spec)) == UserInfo("u", ("g",), "1", (("a", ()), ("b", ("2", "3"))))


@pytest.mark.parametrize(
    ("found", "is_over"),
    [
        (request(), False),
        (request(b"", APPROVED), True),
        (request(b"", condition("Denied")), True),
        (request(certificate="eA=="), True),
        (request(b"", condition("Other")), False),
    ],
)
def test_what_is_decided_is_not_decided_again(found: Document, is_over: bool) -> None:
    assert is_decided(found) is is_over


def expiring(in_s: float) -> str:
    ends = datetime.fromtimestamp(CREATED_S + in_s, UTC)
    builder = x509.CertificateBuilder(subject("ca"), subject("bob"), KEY.public_key(), 1, ends - YEAR, ends)
    pem = builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return base64.b64encode(pem).decode()


LEFT: Final[dict[str, tuple[Document, float | None]]] = {
    "pending": (request(), 86_400.0),
    "denied": (request(b"", condition("Denied", 600)), 3_000.0),
    "failed": (request(b"", APPROVED, condition("Failed", 60)), 3_540.0),
    "approved and not signed": (request(b"", APPROVED), None),
    "signed": (request(b"", condition("Approved", 100), certificate=expiring(86_400)), 3_500.0),
    "signed for a short time": (request(b"", APPROVED, certificate=expiring(600)), 600.0),
    "signed with what cannot be read": (request(b"", APPROVED, certificate="eA=="), 3_600.0),
    "approved at no time": (request(b"", condition("Approved", None), certificate="eA=="), None),
    "its time is over": (request(b"", condition("Denied", 4_000)), -400.0),
    "deleted by somebody else": (
        {**request(), "metadata": {"name": "r", "deletionTimestamp": "2020-01-01T00:00:00Z"}},
        None,
    ),
}


@pytest.mark.parametrize(("found", "left_s"), LEFT.values(), ids=LEFT)
def test_when_requests_are_deleted(found: Document, left_s: float | None) -> None:
    assert time_left_s(found, CREATED_S) == left_s
