"""PodCertificateRequests: requests of kubelets to a signer for a pod's certificate.

The spec never changes, and the status changes once: the request is issued, denied, or failed.
`admission.plugins.pod_certificates` checks who may change it, and when.

Source: pkg/apis/certificates/validation, ValidatePodCertificateRequest*; pkg/registry/certificates; KEP-4317
(release 1.36).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, clear_status
from apiserver.catalogue.certificates.certificate_signing_requests import (
    conditions_of,
    date_transitions,
    keep_conditions,
)
from apiserver.catalogue.common.other_versions import hub_of, other_version
from apiserver.catalogue.common.signer_names import (
    DAY_S,
    POD_CERTIFICATE_S_MIN,
    pod_certificate_s_max,
    validate_signer_name,
    validate_user_annotations,
)
from apiserver.meta import names
from apiserver.meta.field_errors import (
    INVALID,
    Errors,
    FieldError,
    invalid,
    not_supported,
    required,
)
from apiserver.meta.table import Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import field_texts
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import (
    STATUS_ALONE,
    Strategy,
    UpdateStrategy,
    keep_status,
    only_status_without_metadata,
)
from apiserver.schema.validation.checks import follows, immutable_spec, max_bytes, without_nulls
from apiserver.schema.validation.conditions import validate_conditions
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import items

GATE: Final = "PodCertificateRequest"
RESOURCE: Final = "podcertificaterequests"
ISSUED: Final = "Issued"
DENIED: Final = "Denied"
FAILED: Final = "Failed"
_ENDS: Final = (ISSUED, DENIED, FAILED)

_UID_BYTES_MAX: Final = 128
# Fields that v1 does not have any more.
_OLD_KEYS: Final = ("pkixPublicKey", "proofOfPossession")


def from_v1(document: Document) -> None:
    """Adds the fields that v1 does not have, and that v1beta1 always shows."""
    if "spec" in document:
        for field in _OLD_KEYS:
            document["spec"].setdefault(field)


def to_v1(document: Document) -> None:
    for field in _OLD_KEYS:
        document.get("spec", {}).pop(field, None)


# ---- what is asked for


def validate_request(document: Document) -> Errors:
    spec = document.get("spec", {})
    signer = spec.get("signerName", "")
    errors = validate_signer_name("spec.signerName", signer)
    errors += validate_user_annotations(
        "spec.unverifiedUserAnnotations", spec.get("unverifiedUserAnnotations") or {}
    )
    for what in ("pod", "serviceAccount", "node"):
        errors += _reference(spec, f"{what}Name", f"{what}UID")
    seconds = spec.get("maxExpirationSeconds")
    if seconds is None:
        return [*errors, required("spec.maxExpirationSeconds", "must be set")]
    longest = pod_certificate_s_max(signer)
    if not POD_CERTIFICATE_S_MIN <= seconds <= longest:
        text = f"must be in the range [{POD_CERTIFICATE_S_MIN}, {longest}]"
        errors.append(invalid("spec.maxExpirationSeconds", seconds, text))
    from apiserver.catalogue.certificates.pod_certificates import key_errors

    return errors + key_errors(spec)


def _reference(spec: Document, name_field: str, uid_field: str) -> Errors:
    name, uid = spec.get(name_field, ""), spec.get(uid_field, "")
    errors = follows(f"spec.{name_field}", name, names.dns_subdomain)
    if not uid:
        errors.append(invalid(f"spec.{uid_field}", uid, "must not be empty"))
    return errors + max_bytes(f"spec.{uid_field}", uid, _UID_BYTES_MAX)


# ---- what becomes of it


def take_status(new: Document, old: Document) -> None:
    """Copies everything but the status from the old object, and from its status the decision."""
    only_status_without_metadata(new, old)
    keep_conditions(new, old, _ENDS)


def has_ended(document: Document, *kinds: str) -> bool:
    """Returns whether a request has ended in one of some ways; without any, whether it has ended."""
    return any(
        each.get("type") in (kinds or _ENDS) and each.get("status") == "True"
        for each in conditions_of(document)
    )


def validate_request_status(new: Document, old: Document) -> Errors:
    status = new.get("status") or {}
    if errors := _end(status) + validate_conditions(status, "status"):
        return errors
    before = old.get("status") or {}
    if has_ended(old):
        text = "immutable after PodCertificateRequest is issued, denied, or failed"
        return [] if _is_same(status, before) else [_without_value("status", text)]
    if has_ended(new, DENIED, FAILED):
        text = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
        is_bare = _is_same(status, {"conditions": status.get("conditions")})
        return [] if is_bare else [_without_value("status", text)]
    if has_ended(new, ISSUED):
        from apiserver.catalogue.certificates.pod_certificates import chain_errors

        return chain_errors(status, new.get("spec") or {})
    text = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
    return [] if _is_same(status, before) else [_without_value("status", text)]


def _end(status: Document) -> Errors:
    """Checks that there is at most one condition, which shows the end of the request."""
    errors: Errors = []
    known = 0
    for where, condition in items(status, "conditions", "status"):
        # In Kubernetes' path the index is a separate name.
        path, kind, truth = where.replace("[", ".["), condition.get("type", ""), condition.get("status", "")
        if kind not in _ENDS:
            errors.append(not_supported(f"{path}.type", kind, _ENDS))
            continue
        known += 1
        if known > 1:
            text = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.append(invalid(f"{path}.type", kind, text))
        if truth != "True":
            errors.append(not_supported(f"{path}.status", truth, ("True",)))
    return errors


def _is_same(one: Document, other: Document) -> bool:
    def non_empty(status: Document) -> Document:
        return {field: value for field, value in without_nulls(status).items() if value not in ("", [])}

    return non_empty(one) == non_empty(other)


def _without_value(path: str, detail: str) -> FieldError:
    return FieldError(path, INVALID, f"Invalid value: {detail}")


def _state(document: Document, now: float) -> str:
    return next((kind for kind in _ENDS if has_ended(document, kind)), "Pending")


BUILTIN_TYPE: Final = BuiltinType(
    "certificates.",
    "v1beta1",
    RESOURCE,
    "PodCertificateRequest",
    subresources=(
        Subresource(
            "status",
            update=UpdateStrategy(
                take_status, validate_request_status, stamp=date_transitions, writes=STATUS_ALONE
            ),
        ),
    ),
    defaults={
        "io.k8s.api.certificates.v1beta1.PodCertificateRequestSpec": setting(maxExpirationSeconds=DAY_S)
    },
    strategy=Strategy(
        prepare_create=clear_status,
        validate_create=validate_request,
        update=UpdateStrategy(keep_status, immutable_spec),
        allows_unconditional_update=False,
        # To verify a signature takes a millisecond.
        is_costly=True,
    ),
    columns=columns(
        Column("PodName", field_cell("spec", "podName"), "The pod that the certificate is for."),
        Column(
            "ServiceAccountName", field_cell("spec", "serviceAccountName"), "The service account of the pod."
        ),
        Column("NodeName", field_cell("spec", "nodeName"), "The node of the pod."),
        Column("SignerName", field_cell("spec", "signerName"), "The signer of the request."),
        Column("State", _state, "Whether the request is pending, issued, denied or failed."),
    ),
    selectable_fields=field_texts("spec.signerName", "spec.podName", "spec.nodeName"),
    feature_gates=(GATE,),
)
TYPES: Final = (BUILTIN_TYPE, other_version(BUILTIN_TYPE, "v1", hub=hub_of(BUILTIN_TYPE, from_v1, to_v1)))
