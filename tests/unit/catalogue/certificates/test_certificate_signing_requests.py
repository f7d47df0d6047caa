"""CertificateSigningRequests; row T18.

Source: pkg/apis/certificates/validation, pkg/registry/certificates (release 1.34).
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from apiserver.catalogue.certificates.certificate_signing_requests import date_conditions, stamp_request
from apiserver.meta.vocabulary import UserInfo
from apiserver.registry.strategy import WriteContext
from tests.unit.catalogue.served_kinds import Changes, ServedKind

_KEY: Final = ec.generate_private_key(ec.SECP256R1())
_NAME: Final = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
_DER: Final = x509.CertificateSigningRequestBuilder().subject_name(_NAME).sign(_KEY, hashes.SHA256())
_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_CERTIFICATE: Final = (
    x509.CertificateBuilder()
    .subject_name(_NAME)
    .issuer_name(_NAME)
    .public_key(_KEY.public_key())
    .serial_number(1)
    .not_valid_before(_DAY)
    .not_valid_after(_DAY + timedelta(days=1))
    .sign(_KEY, hashes.SHA256())
)


def as_text(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


REQUEST: Final = as_text(_DER.public_bytes(Encoding.PEM))
CERTIFICATE: Final = as_text(_CERTIFICATE.public_bytes(Encoding.PEM))
CSR: Final = ServedKind(
    "certificatesigningrequests.certificates.k8s.io",
    {"spec": {"request": REQUEST, "signerName": "example.com/signer", "usages": ["client auth"]}},
)


def test_nobody_says_who_he_is_nor_that_he_is_approved() -> None:
    changes = {
        "spec.username": "root",
        "spec.groups": ["system:masters"],
        "status": {"certificate": CERTIFICATE},
    }
    document, errors = CSR.create({**changes, "metadata.name": "Any name: it does not matter"})
    assert errors == []
    assert document["status"] == {}
    assert not document["spec"].keys() & {"username", "uid", "groups", "extra"}


def test_the_server_writes_who_asks() -> None:
    document = CSR.create().document
    user = UserInfo("alice", ("dev",), "u1", (("scope", ("a", "b")),))
    stamp_request(WriteContext(user, "now"), document)
    spec = document["spec"]
    assert (spec["username"], spec["uid"], spec["groups"]) == ("alice", "u1", ["dev"])
    assert spec["extra"] == {"scope": ["a", "b"]}


_BROKEN: Final = bytearray(_DER.public_bytes(Encoding.DER))
_BROKEN[-1] ^= 1
_UNSIGNED: Final = (
    b"-----BEGIN CERTIFICATE REQUEST-----\n"
    + base64.b64encode(bytes(_BROKEN))
    + b"\n-----END CERTIFICATE REQUEST-----\n"
)
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a request is in PEM": (
        {"spec.request": "eA=="},
        ['spec.request: Invalid value: "eA==": PEM block type must be CERTIFICATE REQUEST'],
    ),
    "a request is no certificate": (
        {"spec.request": CERTIFICATE},
        [f'spec.request: Invalid value: "{CERTIFICATE}": PEM block type must be CERTIFICATE REQUEST'],
    ),
    "usages are known": (
        {"spec.usages": ["client auth", "client auth"]},
        ['spec.usages[1]: Duplicate value: "client auth"'],
    ),
    "there are usages and a signer": (
        {"spec.usages": None, "spec.signerName": None},
        ["spec.usages: Required value", "spec.signerName: Required value"],
    ),
    "the signer of old is gone": (
        {"spec.signerName": "kubernetes.io/legacy-unknown"},
        [
            (
                'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName '
                "is not "
                "allowed via this API version"
            )
        ],
    ),
    "a signer has a domain": (
        {"spec.signerName": "example/signer"},
        [
            (
                'spec.signerName: Invalid value: "example": should be a domain with at least two segments '
                "separated "
                "by dots"
            )
        ],
    ),
    "a signer has a domain and a name": (
        {"spec.signerName": "signer"},
        [
            (
                'spec.signerName: Invalid value: "signer": must be a fully qualified domain and path of '
                "the form "
                "'example.com/signer-name'"
            )
        ],
    ),
    "a certificate lives ten minutes": (
        {"spec.expirationSeconds": 599},
        [
            (
                "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 "
                "seconds (10 "
                "minutes)"
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_requests_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert CSR.create(changes).texts == texts


def test_a_request_is_signed_with_its_own_key() -> None:
    (text,) = CSR.create({"spec.request": as_text(_UNSIGNED)}).texts
    assert text.startswith("spec.request: Invalid value: ")
    assert not text.endswith("PEM block type must be CERTIFICATE REQUEST")


def test_an_unknown_usage_is_told_with_all_that_are_known() -> None:
    (text,) = CSR.create({"spec.usages": ["all"]}).texts
    assert text.startswith('spec.usages[0]: Unsupported value: "all": supported values: "any", "cert sign"')


# ---- three endpoints, each with its part


def condition(kind: str, status: str = "True", **more: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastUpdateTime": None, "lastTransitionTime": None, **more}


APPROVED: Final = condition("Approved")
DENIED: Final = condition("Denied")
FAILED: Final = condition("Failed")
MINE: Final = condition("Mine", "Unknown")

PARTS: Final[dict[str, tuple[str, Changes, Any]]] = {
    "the main one leaves all but metadata": (
        "",
        {"spec.username": "root", "status": {"conditions": [APPROVED], "certificate": CERTIFICATE}},
        {},
    ),
    "approval takes conditions, and no certificate": (
        "approval",
        {"status": {"conditions": [APPROVED, MINE], "certificate": CERTIFICATE}},
        {"conditions": [APPROVED, MINE]},
    ),
    "status takes the certificate, and conditions but those of approval": (
        "status",
        {"status": {"conditions": [FAILED], "certificate": CERTIFICATE}},
        {"conditions": [FAILED], "certificate": CERTIFICATE},
    ),
}


@pytest.mark.parametrize(("subresource", "changes", "status"), PARTS.values(), ids=PARTS)
def test_what_an_endpoint_takes(subresource: str, changes: Changes, status: Any) -> None:
    document, errors = CSR.update(changes, subresource)
    assert errors == []
    assert document["status"] == status
    assert document["spec"] == CSR.valid["spec"]


BAD_UPDATES: Final[dict[str, tuple[str, list[Any], list[Any], list[str]]]] = {
    "nobody is approved and denied": (
        "approval",
        [APPROVED],
        [APPROVED, DENIED],
        [
            (
                'status.conditions: Invalid value: "Denied": Approved and Denied conditions are '
                "mutually "
                "exclusive"
            )
        ],
    ),
    "an approval is not taken back": (
        "approval",
        [APPROVED],
        [],
        ['status.conditions: Forbidden: updates may not remove a condition of type "Approved"'],
    ),
    "an approval is never untrue": (
        "approval",
        [],
        [{"type": "Approved", "status": "False"}],
        ['status.conditions[0].status: Unsupported value: "False": supported values: "True"'],
    ),
    "a condition is told once, and how it is": (
        "approval",
        [],
        [MINE, {"type": "Mine"}],
        ["status.conditions[1].status: Required value", 'status.conditions[1].type: Duplicate value: "Mine"'],
    ),
    "approval has an endpoint of its own": (
        "status",
        [],
        [APPROVED],
        ['status.conditions: Forbidden: updates may not add a condition of type "Approved"'],
    ),
    "a failure stays": (
        "status",
        [FAILED],
        [],
        ['status.conditions: Forbidden: updates may not remove a condition of type "Failed"'],
    ),
}


@pytest.mark.parametrize(("subresource", "old", "new", "texts"), BAD_UPDATES.values(), ids=BAD_UPDATES)
def test_updates_that_are_wrong(subresource: str, old: list[Any], new: list[Any], texts: list[str]) -> None:
    before = {"status.conditions": old}
    assert CSR.update({"status.conditions": new}, subresource, old=before).texts == texts


def test_through_the_status_an_approval_stays_as_it_is() -> None:
    changed = condition("Approved", message="mine")
    old = {"status.conditions": [APPROVED]}
    document, errors = CSR.update({"status.conditions": [MINE, changed]}, "status", old=old)
    assert (errors, document["status"]["conditions"]) == ([], [MINE, APPROVED])


def test_conditions_are_dated() -> None:
    """A condition that stays what it was keeps the time since when it is so."""
    old = {"status": {"conditions": [condition("Mine", "Unknown", lastTransitionTime="then")]}}
    new = {
        "status": {
            "conditions": [{"type": "Mine", "status": "Unknown"}, {"type": "Failed", "status": "True"}]
        }
    }
    date_conditions(WriteContext(None, "now"), new, old)
    assert new["status"]["conditions"] == [
        condition("Mine", "Unknown", lastUpdateTime="now", lastTransitionTime="then"),
        condition("Failed", lastUpdateTime="now", lastTransitionTime="now"),
    ]


CERTIFICATES: Final[dict[str, tuple[Changes, str, str]]] = {
    "is in PEM": ({}, "eA==", "must contain at least one CERTIFICATE PEM block"),
    "is nothing else": ({}, REQUEST, 'only CERTIFICATE PEM blocks are allowed, found "CERTIFICATE REQUEST"'),
    "has no headers": (
        {},
        as_text(b"-----BEGIN CERTIFICATE-----\nkey: value\n\neA==\n-----END CERTIFICATE-----\n"),
        "no PEM block headers are permitted",
    ),
    "is never exchanged": (
        {"status.certificate": "b2xk"},
        CERTIFICATE,
        "Forbidden: updates may not modify existing certificate content",
    ),
}


@pytest.mark.parametrize(("old", "certificate", "problem"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_the_certificate(old: Changes, certificate: str, problem: str) -> None:
    (text,) = CSR.update({"status.certificate": certificate}, "status", old=old).texts
    assert text.startswith("status.certificate: ")
    assert text.endswith(problem)


CONDITIONS: Final[dict[str, tuple[Any, str]]] = {
    "undecided": ({}, "Pending"),
    "approved": ({"conditions": [APPROVED]}, "Approved"),
    "approved and signed": ({"conditions": [APPROVED], "certificate": CERTIFICATE}, "Approved,Issued"),
    "denied": ({"conditions": [DENIED]}, "Denied"),
    "approved in vain": ({"conditions": [APPROVED, FAILED]}, "Approved,Failed"),
}


@pytest.mark.parametrize(("status", "told"), CONDITIONS.values(), ids=CONDITIONS)
def test_the_row_tells_what_has_become_of_it(status: Any, told: str) -> None:
    cells = CSR.cells({"status": status, "spec.expirationSeconds": 7200})
    assert (cells["Condition"], cells["RequestedDuration"]) == (told, "120m")
