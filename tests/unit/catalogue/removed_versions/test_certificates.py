"""CertificateSigningRequests of certificates/v1beta1. Row T18.

Source: pkg/apis/certificates/v1beta1/defaults.go and validation (release 1.21).
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current
from tests.unit.catalogue.served_kinds import Changes

KEY: Final = ec.generate_private_key(ec.SECP256R1())


def request_of(name: str, organization: str = "", names: Sequence[x509.GeneralName] = ()) -> str:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if organization:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(parts))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    pem = builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM)
    return base64.b64encode(pem).decode()


REQUEST: Final = request_of("me")
NODE: Final = request_of("system:node:a", "system:nodes")
ADDRESS: Final = x509.IPAddress(ipaddress.ip_address("10.0.0.1"))
SERVING: Final = request_of("system:node:a", "system:nodes", [ADDRESS])
KUBELET_USAGES: Final = ["digital signature", "key encipherment", "client auth"]
SERVING_USAGES: Final = ["digital signature", "key encipherment", "server auth"]
RESOURCE: Final = "certificatesigningrequests.certificates.k8s.io"
CSR: Final = OldKind(RESOURCE, "v1beta1", 21, {"spec": {"request": REQUEST}})
V1: Final = OldKind(RESOURCE, "v1", 21, {"spec": {"request": REQUEST, "signerName": "example.com/a"}})
LEGACY: Final = "kubernetes.io/legacy-unknown"

DEFAULTS: Final[dict[str, tuple[Changes, str, list[str]]]] = {
    "nothing is said": ({}, LEGACY, ["digital signature", "key encipherment"]),
    "a kubelet asks for its client": (
        {"spec.request": NODE, "spec.usages": KUBELET_USAGES},
        "kubernetes.io/kube-apiserver-client-kubelet",
        KUBELET_USAGES,
    ),
    "a kubelet asks for its server": (
        {"spec.request": SERVING, "spec.usages": SERVING_USAGES},
        "kubernetes.io/kubelet-serving",
        SERVING_USAGES,
    ),
    "a kubelet asks for something else": ({"spec.request": NODE, "spec.usages": ["any"]}, LEGACY, ["any"]),
    "the signer is named": (
        {"spec.signerName": "example.com/a", "spec.usages": ["any"]},
        "example.com/a",
        ["any"],
    ),
    "what is no request": ({"spec.request": "AAAA", "spec.usages": ["any"]}, LEGACY, ["any"]),
}


@pytest.mark.parametrize(("changes", "signer", "usages"), DEFAULTS.values(), ids=DEFAULTS)
def test_who_signs_by_default(changes: Changes, signer: str, usages: list[str]) -> None:
    spec = CSR.completed(changes)["spec"]
    assert (spec["signerName"], spec["usages"]) == (signer, usages)


ALLOWED: Final[dict[str, tuple[Changes, list[str]]]] = {
    "the legacy signer": (
        {"spec.signerName": LEGACY, "spec.usages": ["any"]},
        [f'spec.signerName: Invalid value: "{LEGACY}": the legacy signerName is not allowed'],
    ),
    "usages that are not known": (
        {"spec.signerName": "example.com/a", "spec.usages": ["to have it"]},
        ['spec.usages[0]: Unsupported value: "to have it": supported values: '],
    ),
    "usages that are repeated": (
        {"spec.signerName": "example.com/a", "spec.usages": ["any", "any"]},
        ['spec.usages[1]: Duplicate value: "any"'],
    ),
}


@pytest.mark.parametrize(("changes", "refusals"), ALLOWED.values(), ids=ALLOWED)
def test_what_only_v1beta1_allows(changes: Changes, refusals: list[str]) -> None:
    stored = CSR.create(changes)
    assert stored.texts == []
    found = V1.create(changes).texts
    assert len(found) == len(refusals)
    assert all(text.startswith(start) for text, start in zip(found, refusals, strict=True))
    # What is stored can be approved in v1.
    approved = {"status.conditions": [{"type": "Approved", "status": "True"}]}
    new = V1.update(approved, "approval", old=changes)
    assert new.texts == []


def test_a_request_must_be_one_in_both() -> None:
    text = 'spec.request: Invalid value: "AAAA": PEM block type must be CERTIFICATE REQUEST'
    assert CSR.create({"spec.request": "AAAA"}).texts == [text]


def condition(kind: str, **more: str) -> dict[str, str]:
    return {"type": kind, "status": "True", **more}


# Subresource, what is there, what is written, and how v1 refuses that.
UPDATES: Final[dict[str, tuple[str, Changes, Changes, str]]] = {
    "conditions of the same type": (
        "status",
        {},
        {"status.conditions": [condition("Mine"), condition("Mine", reason="Again")]},
        "status.conditions[1].type: Duplicate value",
    ),
    "a condition of no type": (
        "status",
        {},
        {"status.conditions": [condition("")]},
        "status.conditions[0].type: Required value",
    ),
    "a certificate that is none": (
        "status",
        {},
        {"status.certificate": "AAAA"},
        "status.certificate: Invalid value: ",
    ),
    "another certificate": (
        "status",
        {"status.certificate": "AAAA"},
        {"status.certificate": "BBBB"},
        "status.certificate: Forbidden: updates may not modify existing certificate content",
    ),
}


@pytest.mark.parametrize(("subresource", "old", "changes", "refusal"), UPDATES.values(), ids=UPDATES)
def test_signers_of_v1beta1_may_do_more(
    subresource: str, old: Changes, changes: Changes, refusal: str
) -> None:
    stored = CSR.create().document
    for path, value in old.items():
        stored["status"][path.rpartition(".")[2]] = value
    for kind, is_allowed in ((CSR, True), (V1, False)):
        new = kind.create({"spec.usages": ["any"], "spec.signerName": "example.com/a"}).document
        new["status"] = {path.rpartition(".")[2]: value for path, value in changes.items()}
        rules = kind.resource.subresources[subresource].update
        assert rules is not None
        rules.prepare(new, stored)
        found = [str(error) for error in rules.validate(new, stored)]
        assert found == [] if is_allowed else any(each.startswith(refusal) for each in found)


def test_what_v1beta1_has_allowed_may_stay() -> None:
    """An update in v1 does not have to mend it."""
    stored = CSR.create().document
    stored["status"] = {"conditions": [condition("Mine"), condition("Mine"), condition("")]}
    rules = V1.resource.subresources["status"].update
    assert rules is not None
    assert rules.validate(stored, stored) == []


def test_conditions_are_true_by_default() -> None:
    found = CSR.completed({"status": {"conditions": [{"type": "Approved"}]}})
    assert found["status"]["conditions"][0]["status"] == "True"


def test_conversion() -> None:
    document: dict[str, Any] = CSR.completed()
    current = {**document, "apiVersion": "certificates.k8s.io/v1"}
    assert CSR.to_hub(document) == read_by_current(document) == current
    assert CSR.from_hub(current) == document
