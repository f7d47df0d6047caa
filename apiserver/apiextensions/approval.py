"""Groups of the community's own domains are for APIs that it has approved, which an annotation tells.

Source: k8s.io/apiextensions-apiserver, pkg/apihelpers, GetAPIApprovalState.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.brand import Brand
from apiserver.golang.quoting import go_quote
from apiserver.golang.urls import InvalidUrl, parse_request_uri
from apiserver.vocabulary import Document

_APPROVALS: Final = "https://github.com/kubernetes/enhancements/pull/1111"


class Approval(NamedTuple):
    """What a definition says of its approval.

    reason: of the condition; that and the text are Kubernetes'. said: the annotation.
    """

    holds: bool
    reason: str
    text: str
    said: str

    @property
    def may_be_created(self) -> bool:
        """Who says that it has not been approved may do without."""
        return self.reason in ("ApprovedAnnotation", "UnapprovedAnnotation")


def annotation(brand: Brand) -> str:
    return f"api-approved.{brand.vendor}.io"


def is_protected(group: str, brand: Brand) -> bool:
    """`k8s.io`, `kubernetes.io`, and what is below them."""
    domains = (brand.group_domain, f"{brand.vendor}.io")
    return any(group == each or group.endswith(f".{each}") for each in domains)


def approval_of(definition: Document, brand: Brand) -> Approval:
    """As it would be in a protected group."""
    key = annotation(brand)
    said: str = (definition["metadata"].get("annotations") or {}).get(key, "")
    told = f"protected groups must have approval annotation {go_quote(key)}"
    if not said:
        return Approval(False, "MissingAnnotation", f"{told}, see {_APPROVALS}", said)
    if said.startswith("unapproved"):
        return Approval(False, "UnapprovedAnnotation", f"not approved: {go_quote(said)}", said)
    if _is_url(said):
        return Approval(True, "ApprovedAnnotation", f"approved in {said}", said)
    text = f'{told} with either a URL or a reason starting with "unapproved", see {_APPROVALS}'
    return Approval(False, "InvalidAnnotation", text, said)


def _is_url(text: str) -> bool:
    try:
        url = parse_request_uri(text)
    except InvalidUrl:
        return False
    return bool(url.scheme and url.host)
