"""The group `certificates.k8s.io`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType, fields
from apiserver.catalogue.certificates import certificate_signing_requests
from apiserver.meta import table
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import Strategy
from apiserver.validation.checks import at
from apiserver.vocabulary import Document


def types() -> tuple[BuiltinType, ...]:
    return (
        BuiltinType(
            "certificates.",
            "v1",
            "certificatesigningrequests",
            "CertificateSigningRequest",
            "io.k8s.api.certificates.v1.CertificateSigningRequest",
            is_namespaced=False,
            short_names=("csr",),
            subresources=(
                Subresource("approval", update=certificate_signing_requests.APPROVAL_UPDATE),
                Subresource("status", update=certificate_signing_requests.STATUS_UPDATE),
            ),
            strategy=Strategy(
                name_rule=_any_name,
                prepare_create=certificate_signing_requests.prepare_certificate_request_create,
                stamp_create=certificate_signing_requests.stamp_request,
                validate=certificate_signing_requests.validate_certificate_request,
                update=certificate_signing_requests.UPDATE,
            ),
            columns=columns(
                AGE,
                Column("SignerName", field_cell("spec", "signerName"), description="Who is asked to sign."),
                Column("Requestor", field_cell("spec", "username"), description="Who asks."),
                Column(
                    "RequestedDuration", _duration, description="For how long the certificate should be good."
                ),
                Column("Condition", _condition, description="What has become of the request."),
            ),
            selectable_fields=fields("spec.signerName"),
        ),
    )


def _any_name(name: str) -> list[str]:
    return []


def _duration(document: Document, now: float) -> str:
    seconds = at(document, "spec", "expirationSeconds")
    return "<none>" if seconds is None else table.duration(seconds)


def _condition(document: Document, now: float) -> str:
    """The decision, if there is one, whether signing failed, and whether there is a certificate."""
    kinds = {condition.get("type") for condition in at(document, "status", "conditions") or ()}
    told = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    if "Failed" in kinds:
        told += ",Failed"
    return f"{told},Issued" if at(document, "status", "certificate") else told
