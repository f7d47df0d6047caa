"""CertificateSigningRequests. Source: pkg/apis/certificates/validation, pkg/registry/certificates.

The server sets the requester. The spec never changes; the approval is written through one subresource, the
certificate through another.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import partial
from typing import Any, Final, NamedTuple

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.signer_names import LEGACY_UNKNOWN, validate_signer_name
from apiserver.golang.pem import CERTIFICATE, PemBlock, pem_blocks
from apiserver.golang.quoting import go_quote
from apiserver.meta import table
from apiserver.meta.field_errors import Errors, duplicate, forbidden, invalid, not_supported, required
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import field_texts
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import Strategy, UpdateStrategy, WriteContext
from apiserver.schema.validation.checks import ZERO_OR_ONE, no_repeated_items
from apiserver.schema.validation.documents import at, items

_EXPIRATION_S_MIN: Final = 600
_USAGES: Final = tuple(
    sorted(
        (
            "signing",
            "digital signature",
            "content commitment",
            "key encipherment",
            "key agreement",
            "data encipherment",
            "cert sign",
            "crl sign",
            "encipher only",
            "decipher only",
            "any",
            "server auth",
            "client auth",
            "code signing",
            "email protection",
            "s/mime",
            "ipsec end system",
            "ipsec tunnel",
            "ipsec user",
            "timestamping",
            "ocsp signing",
            "microsoft sgc",
            "netscape sgc",
        )
    )
)
_APPROVALS: Final = ("Approved", "Denied")
_PERMANENT_CONDITIONS: Final = (*_APPROVALS, "Failed")
_TRUTHS: Final = ("False", "True", "Unknown")
_IDENTITY: Final = ("username", "uid", "groups", "extra")


# ---- create


def prepare_certificate_request_create(document: Document) -> None:
    """Drops fields that clients may not set: the requester, and the status."""
    for field in _IDENTITY:
        document.get("spec", {}).pop(field, None)
    document["status"] = {}


def stamp_request(stamp: WriteContext, document: Document) -> None:
    """Writes the requester into a new request."""
    if (user := stamp.user) is None:
        return
    spec = document.setdefault("spec", {})
    identity: dict[str, Any] = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra},
    }
    spec.update({field: value for field, value in identity.items() if value})


def validate_certificate_request(document: Document, *, of_v1beta1: bool = False) -> Errors:
    """Checks a new request, whose spec never changes.

    of_v1beta1: whether any usages are allowed, also repeated ones, and the legacy signer. Row T18.
    """
    spec = document.get("spec", {})
    errors: Errors = []
    request = spec.get("request") or ""
    if problem := _request_problem(request):
        errors.append(invalid("spec.request", spec.get("request"), problem))
    usages = spec.get("usages") or []
    if not usages:
        errors.append(required("spec.usages"))
    signer = spec.get("signerName", "")
    if not of_v1beta1:
        errors += [
            not_supported(where, usage, _USAGES)
            for where, usage in items(spec, "usages", "spec")
            if usage not in _USAGES
        ]
        errors += no_repeated_items("spec.usages", usages)
    if not (of_v1beta1 and signer == LEGACY_UNKNOWN):
        errors += _signer("spec.signerName", signer)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _EXPIRATION_S_MIN:
        text = f"may not specify a duration less than {_EXPIRATION_S_MIN} seconds (10 minutes)"
        errors.append(invalid("spec.expirationSeconds", seconds, text))
    return errors


def _request_problem(text: str) -> str:
    """Returns the problem of a PKCS#10 request in base64-encoded PEM; empty if there is none."""
    from apiserver.golang.x509_parsing import UNREADABLE, parse_request

    blocks = _pem_blocks(text)
    if not blocks or blocks[0].label != "CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        request = parse_request(blocks[0].content)
        is_signed = request.is_signature_valid
        _ = request.subject  # which is read only now
    except UNREADABLE as error:
        return f"asn1: structure error: {error}"
    return "" if is_signed else "x509: signature is not valid"


def _pem_blocks(text: str) -> list[PemBlock]:
    return list(pem_blocks(base64.b64decode(text)))


def _signer(path: str, name: str) -> Errors:
    if name == LEGACY_UNKNOWN:
        return [invalid(path, name, "the legacy signerName is not allowed via this API version")]
    return validate_signer_name(path, name)


# ---- update


def _keep_all(new: Document, old: Document) -> None:
    """Copies everything but the metadata from the old object."""
    new["spec"], new["status"] = old.get("spec", {}), old.get("status", {})


def _take_status(new: Document, old: Document) -> None:
    """Copies everything but the status from the old object, and from its status the conditions about
    approval.

    If the update adds or removes some of these, it is not changed, and is refused.
    """
    new["spec"] = old.get("spec", {})
    keep_conditions(new, old, _APPROVALS)


def keep_conditions(new: Document, old: Document, kinds: Iterable[str]) -> None:
    """Restores conditions of some types, unless some are added or removed."""
    for kind in kinds:
        before = _conditions_of_type(old, kind)
        if before and len(_conditions_of_type(new, kind)) == len(before):
            rest = iter(before)
            _set_conditions(new, [next(rest) if c.get("type") == kind else c for c in conditions_of(new)])


def _take_conditions(new: Document, old: Document) -> None:
    """Copies everything but the conditions from the old object."""
    conditions = conditions_of(new)
    new["spec"] = old.get("spec", {})
    new["status"] = dict(old.get("status", {}))
    _set_conditions(new, conditions)


def _set_conditions(document: Document, conditions: list[Document]) -> None:
    status = document.setdefault("status", {})
    if conditions:
        status["conditions"] = conditions
    else:
        status.pop("conditions", None)


def conditions_of(document: Document) -> list[Document]:
    found: list[Document] = at(document, "status", "conditions") or []
    return found


def date_conditions(stamp: WriteContext, new: Document, old: Document) -> None:
    """Sets the missing times of conditions: of this update, and of the last transition."""
    for condition in conditions_of(new):
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or stamp.now
    date_transitions(stamp, new, old)


def date_transitions(stamp: WriteContext, new: Document, old: Document) -> None:
    """Sets the missing times of conditions' last transition. Source: populateConditionTimestamps."""
    before = {(c.get("type"), c.get("status")): c for c in conditions_of(old)}
    for condition in conditions_of(new):
        if not condition.get("lastTransitionTime"):
            same = before.get((condition.get("type"), condition.get("status")), {})
            condition["lastTransitionTime"] = same.get("lastTransitionTime") or stamp.now


def validate_certificate_request_update(
    new: Document,
    old: Document,
    *,
    sets_approval: bool = False,
    sets_certificate: bool = False,
    of_v1beta1: bool = False,
) -> Errors:
    """Returns the errors in an update of a request.

    of_v1beta1: whether conditions may be repeated, or have no type, and the certificate may be any text. Row
        T18.
    """
    errors = _validate_conditions(new, old, of_v1beta1=of_v1beta1)
    if not of_v1beta1:
        errors += _validate_certificate(new, old)
    changes = [
        (kind, _conditions_of_type(new, kind), _conditions_of_type(old, kind))
        for kind in _PERMANENT_CONDITIONS
    ]
    path = "status.conditions"
    errors += [
        forbidden(path, f"updates may not remove a condition of type {go_quote(kind)}")
        for kind, after, before in changes
        if len(after) < len(before)
    ]
    if not sets_approval:
        for kind, after, before in changes[: len(_APPROVALS)]:
            verb = "add" if len(after) > len(before) else "modify"
            if len(after) >= len(before) and after != before:
                text = f"updates may not {verb} a condition of type {go_quote(kind)}"
                errors.append(forbidden(path, text))
    if (before := at(old, "status", "certificate")) != at(new, "status", "certificate"):
        path = "status.certificate"
        if not sets_certificate:
            errors.append(forbidden(path, "updates may not set certificate content"))
        elif before and not of_v1beta1:
            errors.append(forbidden(path, "updates may not modify existing certificate content"))
    return errors


def _conditions_of_type(document: Document, kind: str) -> list[Document]:
    return [condition for condition in conditions_of(document) if condition.get("type") == kind]


def _validate_conditions(new: Document, old: Document, *, of_v1beta1: bool) -> Errors:
    """Checks conditions; faults that v1beta1 allowed may remain in objects that have them."""
    errors: Errors = []
    seen: set[str] = set()
    kinds_before = [condition.get("type", "") for condition in conditions_of(old)]
    may_repeat = of_v1beta1 or len(set(kinds_before)) < len(kinds_before)
    may_be_empty = of_v1beta1 or "" in kinds_before
    both_before = all(_conditions_of_type(old, kind) for kind in _APPROVALS)
    for where, condition in items(new.get("status", {}), "conditions", "status"):
        kind, status = condition.get("type", ""), condition.get("status", "")
        if not kind and not may_be_empty:
            errors.append(required(f"{where}.type"))
        allowed = ("True",) if kind in _PERMANENT_CONDITIONS else _TRUTHS
        if not status:
            errors.append(required(f"{where}.status"))
        elif status not in allowed:
            errors.append(not_supported(f"{where}.status", status, allowed))
        if kind in _APPROVALS and not both_before and seen & (set(_APPROVALS) - {kind}):
            text = "Approved and Denied conditions are mutually exclusive"
            errors.append(invalid("status.conditions", kind, text, origin=ZERO_OR_ONE))
        if kind in seen and not may_repeat:
            errors.append(duplicate(f"{where}.type", kind))
        seen.add(kind)
    return errors


def _validate_certificate(new: Document, old: Document) -> Errors:
    text = at(new, "status", "certificate") or ""
    if not text or text == at(old, "status", "certificate"):
        return []
    problem = _certificate_problem(text)
    return [invalid("status.certificate", "<certificate data>", problem)] if problem else []


def _certificate_problem(text: str) -> str:
    from apiserver.golang.x509_parsing import UNREADABLE, parse_certificate

    blocks = _pem_blocks(text)
    if not blocks:
        return "must contain at least one CERTIFICATE PEM block"
    for label, content, has_headers in blocks:
        if label != CERTIFICATE:
            return f"only CERTIFICATE PEM blocks are allowed, found {go_quote(label)}"
        if has_headers:
            return "no PEM block headers are permitted"
        try:
            parse_certificate(content)
        except UNREADABLE as error:
            return f"x509: malformed certificate: {error}"
    return ""


class Updates(NamedTuple):
    """The update rules of the endpoints of requests."""

    main: UpdateStrategy
    status: UpdateStrategy
    approval: UpdateStrategy

    @property
    def subresources(self) -> tuple[Subresource, ...]:
        return (Subresource("approval", update=self.approval), Subresource("status", update=self.status))


def updates(*, of_v1beta1: bool = False) -> Updates:
    validate = partial(validate_certificate_request_update, of_v1beta1=of_v1beta1)
    return Updates(
        UpdateStrategy(_keep_all, validate, resets=("spec", "status")),
        UpdateStrategy(
            _take_status,
            partial(validate, sets_certificate=True),
            stamp=date_conditions,
            resets=("spec", "status.conditions"),
        ),
        UpdateStrategy(
            _take_conditions,
            partial(validate, sets_approval=True),
            stamp=date_conditions,
            resets=("spec", "status.certificate"),
        ),
    )


# ---- columns


def any_name(name: str) -> list[str]:
    return []


def _duration(document: Document, now: float) -> str:
    seconds = at(document, "spec", "expirationSeconds")
    return "<none>" if seconds is None else table.duration(seconds)


def _condition(document: Document, now: float) -> str:
    """Shows the decision, a failure of the signer, and whether there is a certificate."""
    kinds = {condition.get("type") for condition in at(document, "status", "conditions") or ()}
    condition = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    if "Failed" in kinds:
        condition += ",Failed"
    return f"{condition},Issued" if at(document, "status", "certificate") else condition


_OF_V1: Final = updates()
BUILTIN_TYPE: Final = BuiltinType(
    "certificates.",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    is_namespaced=False,
    short_names=("csr",),
    subresources=_OF_V1.subresources,
    strategy=Strategy(
        name_rule=any_name,
        prepare_create=prepare_certificate_request_create,
        stamp_create=stamp_request,
        validate_create=validate_certificate_request,
        update=_OF_V1.main,
    ),
    columns=columns(
        AGE,
        Column("SignerName", field_cell("spec", "signerName"), "The signer of the request."),
        Column("Requestor", field_cell("spec", "username"), "The user that created the request."),
        Column("RequestedDuration", _duration, "The requested lifetime of the certificate."),
        Column("Condition", _condition, "The state of the request."),
    ),
    selectable_fields=field_texts("spec.signerName"),
)
