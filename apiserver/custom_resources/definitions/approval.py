"""Finds the approval, an annotation, that definitions in the domains of the Kubernetes community need.

Source: k8s.io/apiextensions-apiserver, pkg/apihelpers, GetAPIApprovalState.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.golang.quoting import go_quote
from apiserver.golang.urls import InvalidUrl, parse_request_uri
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document

_APPROVALS: Final = "https://github.com/kubernetes/enhancements/pull/1111"


class Approval(NamedTuple):
    """The approval of a definition.

    reason, message: those of the condition, in Kubernetes' words.
    annotation: its value; empty if there is none.
    """

    is_approved: bool
    reason: str
    message: str
    annotation: str

    @property
    def may_be_created(self) -> bool:
        """Whether a definition may be created, as an annotation may also say that it is not approved."""
        return self.reason in ("ApprovedAnnotation", "UnapprovedAnnotation")


def annotation_key(brand: Brand) -> str:
    return f"api-approved.{brand.vendor}.io"


def is_protected_group(group: str, brand: Brand) -> bool:
    """Whether a group is `k8s.io`, `kubernetes.io`, or below them."""
    domains = (brand.group_domain, f"{brand.vendor}.io")
    return any(group == each or group.endswith(f".{each}") for each in domains)


def approval_of(definition: Document, brand: Brand) -> Approval:
    """Returns the approval that a definition has, or would need in a protected group."""
    key = annotation_key(brand)
    value: str = (definition["metadata"].get("annotations") or {}).get(key, "")
    missing = f"protected groups must have approval annotation {go_quote(key)}"
    if not value:
        return Approval(False, "MissingAnnotation", f"{missing}, see {_APPROVALS}", value)
    if value.startswith("unapproved"):
        return Approval(False, "UnapprovedAnnotation", f"not approved: {go_quote(value)}", value)
    if _is_url(value):
        return Approval(True, "ApprovedAnnotation", f"approved in {value}", value)
    text = f'{missing} with either a URL or a reason starting with "unapproved", see {_APPROVALS}'
    return Approval(False, "InvalidAnnotation", text, value)


def _is_url(text: str) -> bool:
    try:
        url = parse_request_uri(text)
    except InvalidUrl:
        return False
    return bool(url.scheme and url.host)
