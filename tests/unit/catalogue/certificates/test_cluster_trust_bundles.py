"""ClusterTrustBundles. Source: pkg/apis/certificates/validation (release 1.36); rows H01, H02, H09, S03."""

from __future__ import annotations

from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from apiserver.catalogue.common.signer_names import bundle_name_prefix
from tests.support.certificates import certificate, key
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, catalogue, read_by_current
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

BUNDLES: Final = "clustertrustbundles.certificates.k8s.io"
CA: Final = certificate("ca", x509.BasicConstraints(ca=True, path_length=None))
OTHER_CA: Final = certificate("other", x509.BasicConstraints(ca=True, path_length=0))
NO_CA: Final = certificate("leaf", x509.BasicConstraints(ca=False, path_length=None))
WITHOUT_CONSTRAINTS: Final = certificate("old")
BUNDLE: Final = OldKind(BUNDLES, "v1beta1", 36, {"spec": {"trustBundle": CA}})
SIGNED: Final = {"metadata.name": "example.com:signer:a", "spec.signerName": "example.com/signer"}


def headed(pem: str) -> str:
    begin, rest = pem.split("\n", 1)
    return f"{begin}\nA: b\n\n{rest}"


VALID: Final[dict[str, Changes]] = {
    "one certificate": {},
    "several, with text between them": {"spec.trustBundle": f"{CA}text\n{OTHER_CA}"},
    "of a signer": SIGNED,
    "of a signer with a path of several parts": {
        "metadata.name": "example.com:ns.signer:v1.2",
        "spec.signerName": "example.com/ns.signer",
    },
}


@pytest.mark.parametrize("changes", VALID.values(), ids=VALID)
def test_valid(changes: Changes) -> None:
    assert BUNDLE.create(changes).texts == []


NAME: Final = 'metadata.name: Invalid value: "example.com:signer:a": '
OTHER_NAME: Final = 'metadata.name: Invalid value: "example.com:other:a": '
OMITTED: Final = 'spec.trustBundle: Invalid value: "<value omitted>": '
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "no certificate": ({"spec.trustBundle": ""}, [f"{OMITTED}at least one trust anchor must be provided"]),
    "other text": ({"spec.trustBundle": "ca"}, [f"{OMITTED}at least one trust anchor must be provided"]),
    "a certificate twice": (
        {"spec.trustBundle": CA + OTHER_CA + CA},
        [f"{OMITTED}duplicate trust anchor (indices [0 2])"],
    ),
    "a private key": (
        {"spec.trustBundle": CA + key()},
        [f"{OMITTED}entry 1 has bad block type: PRIVATE KEY"],
    ),
    "headers": ({"spec.trustBundle": headed(CA)}, [f"{OMITTED}entry 0 has PEM block headers"]),
    "no certificate in a block": (
        {"spec.trustBundle": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
        [f"{OMITTED}entry 0 does not parse as X.509"],
    ),
    "certificates of no CA": (
        {"spec.trustBundle": NO_CA + WITHOUT_CONSTRAINTS},
        [f"{OMITTED}entry {index} does not have the CA bit set" for index in (0, 1)],
    ),
    "too long": (
        {"spec.trustBundle": "x" * (1 << 20) + "x"},
        ["spec.trustBundle: Too long: may not be more"],
    ),
    "a name of a signer that is not told": (
        {"metadata.name": "example.com:signer:a"},
        [f'{NAME}ClusterTrustBundle without signer name must not have ":" in its name'],
    ),
    "the name is another signer's": (
        {**SIGNED, "metadata.name": "example.com:other:a"},
        [f"{OTHER_NAME}ClusterTrustBundle for signerName example.com/signer must be named with prefix ex"],
    ),
    "nothing behind the prefix": (
        {**SIGNED, "metadata.name": "example.com:signer:"},
        ['metadata.name: Invalid value: "example.com:signer:": a lowercase RFC 1123 subdomain must'],
    ),
    "a bad name": (
        {"metadata.name": "A"},
        ['metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must'],
    ),
    "no signer's name": (
        {"metadata.name": "signer:a", "spec.signerName": "signer"},
        ['spec.signerName: Invalid value: "signer": must be a fully qualified domain and path'],
    ),
}


@pytest.mark.parametrize(("changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, beginnings: list[str]) -> None:
    assert_texts_begin(BUNDLE.create(changes).texts, beginnings)


def test_the_signer_stays() -> None:
    immutable, *_ = BUNDLE.update({"spec.signerName": "example.com/other"}, old=SIGNED).texts
    assert immutable == 'spec.signerName: Invalid value: "example.com/other": field is immutable'


def test_certificates_are_read_again_only_if_they_change() -> None:
    """What was valid stays so, whatever a later server makes of it."""
    assert BUNDLE.update({"spec.trustBundle": OTHER_CA}).texts == []
    (text,) = BUNDLE.update({"spec.trustBundle": NO_CA}).texts
    assert text == f"{OMITTED}entry 0 does not have the CA bit set"
    assert BUNDLE.update({"metadata.labels": {"a": "b"}}, old={"spec.trustBundle": CA}).texts == []


def test_names_begin_with_the_signer() -> None:
    assert (
        bundle_name_prefix("kubernetes.io/kube-apiserver-serving") == "kubernetes.io:kube-apiserver-serving:"
    )


ROWS: Final[dict[str, tuple[Changes, str]]] = {
    "of nobody in particular": ({}, "<none>"),
    "of a signer": (SIGNED, "example.com/signer"),
}


@pytest.mark.parametrize(("changes", "signer"), ROWS.values(), ids=ROWS)
def test_rows(changes: Changes, signer: str) -> None:
    assert BUNDLE.cells(changes)["SignerName"] == signer


# Versions, and releases that have them.
VERSIONS: Final = {"v1alpha1": 27, "v1": 37}


@pytest.mark.parametrize(("version", "minor"), VERSIONS.items(), ids=VERSIONS)
def test_other_versions_are_the_same(version: str, minor: int) -> None:
    bundle = OldKind(BUNDLES, version, minor, {"spec": {"trustBundle": CA}})
    assert bundle.create().texts == []
    assert read_by_current(bundle.completed()) == BUNDLE.completed()
    resource = bundle.resource
    assert resource.has_protobuf
    assert resource.from_protobuf(resource.to_protobuf(bundle.completed()))["spec"] == {"trustBundle": CA}


STORED: Final = {27: "v1alpha1", 33: "v1alpha1", 34: "v1beta1", 36: "v1beta1", 37: "v1beta1"}


@pytest.mark.parametrize(("minor", "version"), STORED.items(), ids=STORED)
def test_what_is_stored(minor: int, version: str) -> None:
    every = catalogue(minor).all_versions()
    assert {each.storage_version for each in every if each.resource == "clustertrustbundles"} == {version}


def test_certificates_are_pem() -> None:
    assert CA.encode() == x509.load_pem_x509_certificate(CA.encode()).public_bytes(Encoding.PEM)
