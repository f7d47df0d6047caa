"""PodCertificateRequests. Source: pkg/apis/certificates/validation (release 1.36); rows H01, H02, H09."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document
from tests.support.certificates import END, ends_in_year_0
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

REQUESTS: Final = "podcertificaterequests.certificates.k8s.io"
UID: Final = "0b9d2c1e-8f3a-4c4d-9a56-2f1f6d7b8c9d"
ANYBODY: Final = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "anybody")])
OWN: Final = ec.generate_private_key(ec.SECP256R1())


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def public(key: Any) -> str:
    return encoded(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def stub(key: Any = OWN) -> str:
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return encoded(builder.sign(key, algorithm).public_bytes(Encoding.DER))


def with_proof(key: Any, signature: bytes) -> Changes:
    """As 1.34 and 1.35 have it: the public key, and what the private one has made of the pod's UID."""
    return {
        "spec.stubPKCS10Request": None,
        "spec.pkixPublicKey": public(key),
        "spec.proofOfPossession": encoded(signature),
    }


SPEC: Final = {
    "signerName": "example.com/signer",
    "podName": "web",
    "podUID": UID,
    "serviceAccountName": "default",
    "serviceAccountUID": UID,
    "nodeName": "node",
    "nodeUID": UID,
    "stubPKCS10Request": stub(),
}
REQUEST: Final = OldKind(REQUESTS, "v1beta1", 36, {"spec": SPEC})
RSA: Final = rsa.generate_private_key(65_537, 3_072)
SMALL_RSA: Final = rsa.generate_private_key(65_537, 2_048)
ED25519: Final = ed25519.Ed25519PrivateKey.generate()
UNUSUAL: Final = ec.generate_private_key(ec.SECP256K1())
SHA256: Final = hashes.SHA256()
MESSAGE: Final = UID.encode()
PSS: Final = padding.PSS(padding.MGF1(SHA256), padding.PSS.DIGEST_LENGTH)

VALID: Final[dict[str, Changes]] = {
    "a request for a certificate": {},
    "of an Ed25519 key": {"spec.stubPKCS10Request": stub(ED25519)},
    "a proof of an elliptic key": with_proof(OWN, OWN.sign(MESSAGE, ec.ECDSA(SHA256))),
    "a proof of an RSA key": with_proof(RSA, RSA.sign(MESSAGE, PSS, SHA256)),
    "a proof of an Ed25519 key": with_proof(ED25519, ED25519.sign(MESSAGE)),
    "the shortest time": {"spec.maxExpirationSeconds": 3_600},
    "the longest time": {"spec.maxExpirationSeconds": 91 * 86_400},
    "annotations": {"spec.unverifiedUserAnnotations": {"Acme.io/Foo": "x"}},
}


@pytest.mark.parametrize("changes", VALID.values(), ids=VALID)
def test_valid(changes: Changes) -> None:
    created = REQUEST.create(changes)
    assert created.texts == []
    assert created.document["status"] == {}


def test_a_day_is_asked_for_if_nothing_is_said() -> None:
    assert REQUEST.completed()["spec"]["maxExpirationSeconds"] == 86_400


UNPROVEN: Final = "could not verify proof-of-possession signature"
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "no signer": ({"spec.signerName": ""}, ["spec.signerName: Required value"]),
    "no pod": (
        {"spec.podName": "", "spec.podUID": ""},
        [
            'spec.podName: Invalid value: "": a lowercase RFC 1123 subdomain must',
            'spec.podUID: Invalid value: "": must not be empty',
        ],
    ),
    "a long UID": ({"spec.nodeUID": "x" * 129}, ["spec.nodeUID: Too long: may not be more than 128 bytes"]),
    "a bad account": (
        {"spec.serviceAccountName": "A"},
        ['spec.serviceAccountName: Invalid value: "A": a lo'],
    ),
    "a short time": (
        {"spec.maxExpirationSeconds": 3_599},
        ["spec.maxExpirationSeconds: Invalid value: 3599: must be in the range [3600, 7862400]"],
    ),
    "a long time of Kubernetes' own signers": (
        {"spec.signerName": "kubernetes.io/signer", "spec.maxExpirationSeconds": 86_401},
        ["spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]"],
    ),
    "annotations without a domain": (
        {"spec.unverifiedUserAnnotations": {"Foo": "x"}},
        ['spec.unverifiedUserAnnotations: Invalid value: "foo": must be a domain-prefixed key (such as'],
    ),
    "long annotations": (
        {"spec.unverifiedUserAnnotations": {"acme.io/foo": "x" * 256 * 1024}},
        ["spec.unverifiedUserAnnotations: Too long: may not be more than 262144 bytes"],
    ),
    "no key": (
        {"spec.stubPKCS10Request": None},
        ['spec.pkixPublicKey: Invalid value: "": must be a valid PKIX-serialized public key'],
    ),
    "both forms": (
        {"spec.pkixPublicKey": public(OWN)},
        ["spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) mu"],
    ),
    "no request for a certificate": (
        {"spec.stubPKCS10Request": encoded(b"x")},
        ["spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"],
    ),
    "a huge key": (
        {"spec.stubPKCS10Request": encoded(bytes(10_241))},
        ["spec.stubPKCS10Request: Too long: may not be more than 10240 bytes"],
    ),
    "a small RSA key": (
        {"spec.stubPKCS10Request": stub(SMALL_RSA)},
        ['spec.stubPKCS10Request: Invalid value: "2048-bit modulus": RSA keys must have modulus size 3072'],
    ),
    "an unusual curve": (
        with_proof(UNUSUAL, b"x"),
        ['spec.pkixPublicKey: Invalid value: "curve secp256k1": elliptic public keys must use curve P256 or'],
    ),
    "a proof of another key": (
        with_proof(OWN, UNUSUAL.sign(MESSAGE, ec.ECDSA(SHA256))),
        [f"spec.proofOfPossession: Invalid value: {UNPROVEN}"],
    ),
    "a proof for another pod": (
        with_proof(ED25519, ED25519.sign(b"other")),
        [f"spec.proofOfPossession: Invalid value: {UNPROVEN}"],
    ),
    "no proof": (with_proof(RSA, b""), [f"spec.proofOfPossession: Invalid value: {UNPROVEN}"]),
}


@pytest.mark.parametrize(("changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, beginnings: list[str]) -> None:
    assert_texts_begin(REQUEST.create(changes).texts, beginnings)


def test_what_is_asked_for_never_changes() -> None:
    assert REQUEST.update({"metadata.labels": {"a": "b"}}).texts == []
    (text,) = REQUEST.update({"spec.podName": "other"}).texts
    assert text.startswith("spec: Invalid value:")
    assert text.endswith("field is immutable")


# ---- the status

NOW: Final = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def text_of(time: datetime) -> str:
    return timestamps.to_text(time.timestamp())


def year_0(pem: str) -> str:
    """Returns a certificate that ends in 2060 as one that ends in a year which Python has not."""
    changed = ends_in_year_0(x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER))
    return x509.load_der_x509_certificate(changed).public_bytes(Encoding.PEM).decode()


def chain(key: Any = OWN, lifetime: timedelta = timedelta(hours=2), *names: str) -> str:
    """A certificate for a key, which another has signed."""
    signer = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(ANYBODY)
        .issuer_name(ANYBODY)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + lifetime)
    )
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), critical=False
        )
    return builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def condition(kind: str = "Issued", status: str = "True", **fields: Any) -> Document:
    at = "2024-05-06T07:08:09Z"
    return {"type": kind, "status": status, "reason": "R", "lastTransitionTime": at, "message": "", **fields}


def issued(lifetime: timedelta = timedelta(hours=2), **fields: Any) -> Document:
    return {
        "conditions": [condition()],
        "certificateChain": chain(lifetime=lifetime),
        "notBefore": text_of(NOW),
        "notAfter": text_of(NOW + lifetime),
        "beginRefreshAt": text_of(NOW + lifetime / 2),
        **fields,
    }


ISSUED: Final = issued()
CHAIN: Final = "status.certificateChain: Invalid value: "
# A null is what decoding makes of Go's zero time, which is set; a null that a client sends is absent.
ZERO: Final = 'Invalid value: "0001-01-01T00:00:00Z"'
# A status, that before, and the beginnings of what is told.
STATUSES: Final[dict[str, tuple[Document, Document, list[str]]]] = {
    "issued": (ISSUED, {}, []),
    "with an intermediate certificate": (
        issued(certificateChain=ISSUED["certificateChain"] + chain(UNUSUAL)),
        {},
        [],
    ),
    "a certificate of a year that Python has not": (
        issued(certificateChain=year_0(chain(OWN, END - NOW))),
        {},
        [CHAIN],
    ),
    "denied": ({"conditions": [condition("Denied")]}, {}, []),
    "failed": ({"conditions": [condition("Failed")]}, {}, []),
    "nothing yet": ({}, {}, []),
    "a certificate without saying so": (
        {"certificateChain": ISSUED["certificateChain"]},
        {},
        ['status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Fai'],
    ),
    "another condition": (
        {"conditions": [condition("Approved")]},
        {},
        ['status.conditions.[0].type: Unsupported value: "Approved": supported values: "Issued", "Denied"'],
    ),
    "two ends": (
        {"conditions": [condition("Denied"), condition("Failed")]},
        {},
        ['status.conditions.[1].type: Invalid value: "Failed": There may be at most one condition with type'],
    ),
    "not denied": (
        {"conditions": [condition("Denied", "False")]},
        {},
        ['status.conditions.[0].status: Unsupported value: "False": supported values: "True"'],
    ),
    "no reason": (
        {"conditions": [condition("Denied", reason="")]},
        {},
        ["status.conditions[0].reason: Required value"],
    ),
    "an end that is taken back": (
        {},
        {"conditions": [condition("Denied")]},
        ["status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"],
    ),
    "another certificate": (
        issued(timedelta(hours=3)),
        ISSUED,
        ["status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"],
    ),
    "denied with a certificate": (
        {**ISSUED, "conditions": [condition("Denied")]},
        {},
        ["status: Invalid value: non-condition status fields must be empty when denying or failing"],
    ),
    "no certificate": (
        issued(certificateChain=""),
        {},
        [f'{CHAIN}"": issued certificate chain must contain'],
    ),
    "a long chain": (
        issued(certificateChain="x" * 102_401),
        {},
        ["status.certificateChain: Too long: may not be more than 102400 bytes"],
    ),
    "no block of a certificate": (
        issued(certificateChain="-----BEGIN A-----\nAAAA\n-----END A-----\n"),
        {},
        [f"{CHAIN}"],
    ),
    "no certificate in the block": (
        issued(certificateChain="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        {},
        [f"{CHAIN}"],
    ),
    "another key": (issued(certificateChain=chain(UNUSUAL)), {}, [f"{CHAIN}"]),
    "a bad name": (
        issued(certificateChain=chain(OWN, timedelta(hours=2), ".a..b")),
        {},
        [
            f"{CHAIN}\".a..b\": leaf certificate's DNSName should not contain '..'",
            f"{CHAIN}\".a..b\": leaf certificate's DNSName should not start or end with '.'",
        ],
    ),
    "no times": (
        {field: ISSUED[field] for field in ("conditions", "certificateChain")},
        {},
        [
            "status.notBefore: Required value: must be present and consistent with the issued certificate",
            "status.notAfter: Required value: must be present and consistent with the issued certificate",
            "status.beginRefreshAt: Required value: must be present and in the range [notbefore+10min",
        ],
    ),
    "a key behind the certificate": (
        issued(certificateChain=chain() + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
        {},
        [f"{CHAIN}"],
    ),
    "the zero time as its beginning": (
        issued(notBefore=None),
        {},
        [f"status.notBefore: {ZERO}: must be set to the NotBefore time encoded in the leaf certificate"],
    ),
    "the zero time as its end": (
        issued(notAfter=None),
        {},
        [f"status.notAfter: {ZERO}: must be set to the NotAfter time encoded in the leaf certificate"],
    ),
    "refreshed at the zero time": (
        issued(beginRefreshAt=None),
        {},
        [f"status.beginRefreshAt: {ZERO}: must be at least 10 minutes after status.notBefore"],
    ),
    "another beginning": (
        issued(notBefore=text_of(NOW + timedelta(seconds=1))),
        {},
        ['status.notBefore: Invalid value: "2024-05-06T07:08:10Z": must be set to the NotBefore time '],
    ),
    "another end": (
        issued(notAfter=text_of(NOW)),
        {},
        ['status.notAfter: Invalid value: "2024-05-06T07:08:09Z": must be set to the NotAfter time encoded'],
    ),
    "a short life": (
        issued(timedelta(minutes=30)),
        {},
        [f"{CHAIN}1800000000000: leaf certificate lifetime must be >= 1 hour"],
    ),
    "a long life": (
        issued(timedelta(days=2)),
        {},
        [f"{CHAIN}172800000000000: leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)"],
    ),
    "refreshed too early": (
        issued(beginRefreshAt=text_of(NOW + timedelta(minutes=9))),
        {},
        ['status.beginRefreshAt: Invalid value: "2024-05-06T07:17:09Z": must be at least 10 minutes a'],
    ),
    "refreshed too late": (
        issued(beginRefreshAt=text_of(NOW + timedelta(minutes=111))),
        {},
        ['status.beginRefreshAt: Invalid value: "2024-05-06T08:59:09Z": must be at least 10 minutes b'],
    ),
}


@pytest.mark.parametrize(("status", "before", "beginnings"), STATUSES.values(), ids=STATUSES)
def test_statuses(status: Document, before: Document, beginnings: list[str]) -> None:
    stored = REQUEST.create().document
    stored["status"] = before
    new = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}, "status": status}
    rules = REQUEST.resource.subresources["status"].update
    assert rules is not None
    rules.prepare(new, stored)
    assert "labels" not in new["metadata"]
    assert_texts_begin(list(map(str, rules.validate(new, stored))), beginnings)


def test_what_has_been_decided_stays_as_it_was() -> None:
    stored = REQUEST.create().document
    stored["status"] = {"conditions": [condition("Denied")]}
    new = {**stored, "status": {"conditions": [condition("Denied", reason="Other")]}}
    rules = REQUEST.resource.subresources["status"].update
    assert rules is not None
    rules.prepare(new, stored)
    assert new["status"] == stored["status"]


ROWS: Final[dict[str, tuple[Document, str]]] = {
    "nothing has happened": ({}, "Pending"),
    "issued": ({"conditions": [condition()]}, "Issued"),
    "denied": ({"conditions": [condition("Denied")]}, "Denied"),
    "failed": ({"conditions": [condition("Failed")]}, "Failed"),
}


@pytest.mark.parametrize(("status", "state"), ROWS.values(), ids=ROWS)
def test_rows(status: Document, state: str) -> None:
    cells = REQUEST.cells({"status": status})
    assert (cells["PodName"], cells["SignerName"], cells["State"]) == ("web", "example.com/signer", state)


def test_v1_has_no_proof() -> None:
    v1 = OldKind(REQUESTS, "v1", 37, {"spec": SPEC})
    assert v1.create().texts == []
    assert v1.resource.has_protobuf
    proven = REQUEST.completed(with_proof(ED25519, ED25519.sign(MESSAGE)))
    assert not {"pkixPublicKey", "proofOfPossession"} & v1.from_hub(proven)["spec"].keys()


def test_v1alpha1_has_only_the_proof() -> None:
    alpha = OldKind(
        REQUESTS,
        "v1alpha1",
        34,
        {
            "spec": {
                **SPEC,
                "pkixPublicKey": public(ED25519),
                "proofOfPossession": encoded(ED25519.sign(MESSAGE)),
            }
        },
    )
    del alpha.valid["spec"]["stubPKCS10Request"]
    assert alpha.create().texts == []
    document = alpha.completed()
    assert read_by_current(document)["spec"] == document["spec"]
