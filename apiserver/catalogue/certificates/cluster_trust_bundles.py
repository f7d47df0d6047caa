"""ClusterTrustBundles: trusted certificates of a signer, or without a signer.

Source: pkg/apis/certificates/validation, ValidateClusterTrustBundle; pkg/registry/certificates; KEP-3257
(release 1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.certificates.certificate_signing_requests import any_name
from apiserver.catalogue.common.other_versions import other_version
from apiserver.catalogue.common.signer_names import bundle_name_problems, validate_signer_name
from apiserver.golang.formatting import go_text
from apiserver.golang.pem import CERTIFICATE, PemBlock, pem_blocks
from apiserver.meta.field_errors import Errors, invalid, too_long
from apiserver.meta.names import byte_length
from apiserver.meta.table import Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import field_texts
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import immutable
from apiserver.schema.validation.documents import at

GATE: Final = "ClusterTrustBundle"
RESOURCE: Final = "clustertrustbundles"
_BUNDLE_BYTES_MAX: Final = 1 << 20
_PATH: Final = "spec.trustBundle"
_OMITTED: Final = "<value omitted>"


def validate_name_and_signer(document: Document) -> Errors:
    name, signer = document["metadata"].get("name", ""), _signer_of(document)
    errors = [invalid("metadata.name", name, problem) for problem in bundle_name_problems(name, signer)]
    return errors + validate_signer_name("spec.signerName", signer) if signer else errors


def validate_certificates(document: Document) -> Errors:
    """Checks that a bundle only has certificates of CAs, each once."""
    bundle = at(document, "spec", "trustBundle") or ""
    if byte_length(bundle) > _BUNDLE_BYTES_MAX:
        return [too_long(_PATH, _BUNDLE_BYTES_MAX)]
    blocks = list(pem_blocks(bundle.encode("utf-8", "surrogatepass")))
    errors = [
        invalid(_PATH, _OMITTED, f"entry {index} {problem}")
        for index, block in enumerate(blocks)
        if (problem := _problem(block))
    ]
    if errors:
        return errors
    if not blocks:
        return [invalid(_PATH, _OMITTED, "at least one trust anchor must be provided")]
    return [
        invalid(_PATH, _OMITTED, f"duplicate trust anchor (indices {go_text(indexes)})")
        for indexes in _repeated(blocks)
    ]


def _problem(block: PemBlock) -> str:
    """Returns the problem of a block; empty if there is none."""
    if block.label != CERTIFICATE:
        return f"has bad block type: {block.label}"
    if block.has_headers:
        return "has PEM block headers"
    from cryptography import x509

    from apiserver.golang.x509_parsing import UNREADABLE, parse_certificate

    try:
        certificate = parse_certificate(block.content)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        is_ca = constraints.value.ca
    except x509.ExtensionNotFound:
        is_ca = False
    except (*UNREADABLE, x509.DuplicateExtension):
        return "does not parse as X.509"
    return "" if is_ca else "does not have the CA bit set"


def _repeated(blocks: list[PemBlock]) -> Iterator[list[int]]:
    """Yields the indexes of duplicate blocks."""
    found: dict[bytes, list[int]] = {}
    for index, block in enumerate(blocks):
        found.setdefault(block.content, []).append(index)
    return (indexes for indexes in found.values() if len(indexes) > 1)


def validate_bundle_update(new: Document, old: Document) -> Errors:
    """Checks an update. Certificates are only parsed if they change: unchanged ones remain valid."""
    is_same = at(new, "spec", "trustBundle") == at(old, "spec", "trustBundle")
    errors = [] if is_same else validate_certificates(new)
    return errors + immutable("spec.signerName", _signer_of(new), _signer_of(old))


def _signer_of(document: Document) -> str:
    signer: str = at(document, "spec", "signerName") or ""
    return signer


def _shown_signer(document: Document, now: float) -> str:
    return _signer_of(document) or "<none>"


BUILTIN_TYPE: Final = BuiltinType(
    "certificates.",
    "v1beta1",
    RESOURCE,
    "ClusterTrustBundle",
    is_namespaced=False,
    strategy=Strategy(
        # The rule for names depends on the signer.
        name_rule=any_name,
        validate=validate_name_and_signer,
        validate_create=validate_certificates,
        update=UpdateStrategy(validate=validate_bundle_update),
        allows_unconditional_update=False,
        # Parsing a megabyte of certificates takes tens of milliseconds.
        is_costly=True,
    ),
    columns=columns(
        Column("SignerName", _shown_signer, "The signer whose certificates the bundle contains.")
    ),
    selectable_fields=field_texts("spec.signerName"),
    feature_gates=(GATE,),
)
# All versions, which differ in their names only. The first is one that 1.36 has, too.
TYPES: Final = (BUILTIN_TYPE, *(other_version(BUILTIN_TYPE, version) for version in ("v1", "v1alpha1")))
