"""SubjectAccessReviews for webhooks, and their responses. Pure.

Source: k8s.io/apiserver, plugin/pkg/authorizer/webhook/webhook.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from apiserver.auth.authz.attributes import Attributes, Decision, SelectorRequirement, Verdict
from apiserver.auth.authz.configuration import V1BETA1
from apiserver.auth.authz.selectors import field_requirements, label_requirements
from apiserver.meta.vocabulary import Document

# A reason is passed on to who is refused.
REASON_LENGTH_MAX: Final = 8_192
_RESOURCE_FIELDS: Final = ("namespace", "verb", "group", "version", "resource", "subresource", "name")


class InvalidAnswer(Exception):
    """The response of a webhook is not a SubjectAccessReview with a status."""


def review_spec(attributes: Attributes) -> Document:
    """Returns the spec of the review, in version v1, without empty fields, as in the API."""
    user = attributes.user
    spec: Document = {}
    if attributes.is_resource:
        about = {field: value for field in _RESOURCE_FIELDS if (value := getattr(attributes, field))}
        for field, found in (
            ("fieldSelector", field_requirements(attributes)),
            ("labelSelector", label_requirements(attributes)),
        ):
            if found:
                about[field] = {"requirements": _requirements(found)}
        spec["resourceAttributes"] = about
    else:
        about = {field: value for field in ("path", "verb") if (value := getattr(attributes, field))}
        spec["nonResourceAttributes"] = about
    known = {"user": user.name, "groups": list(user.groups), "uid": user.uid}
    spec |= {field: value for field, value in known.items() if value}
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra}
    return spec


def _requirements(found: Sequence[SelectorRequirement]) -> list[Document]:
    return [
        {"key": each.key, "operator": each.operator, **({"values": list(each.values)} if each.values else {})}
        for each in found
    ]


def review(group: str, version: str, spec: Document) -> Document:
    """Returns the review to send. group: that of the type, in the brand's domain."""
    if version == V1BETA1 and "groups" in spec:
        spec = {("group" if field == "groups" else field): value for field, value in spec.items()}
    return {
        "kind": "SubjectAccessReview",
        "apiVersion": f"{group}/{version}",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": False},
    }


def read_verdict(answer: Any, group: str, version: str) -> Verdict:
    """Returns the decision in a webhook's response. Raises InvalidAnswer."""
    if not isinstance(answer, dict):
        raise InvalidAnswer("the response is not an object")
    kind, api_version = answer.get("kind"), answer.get("apiVersion")
    if (kind, api_version) != ("SubjectAccessReview", f"{group}/{version}"):
        raise InvalidAnswer(f"the response is not a SubjectAccessReview of {group}/{version}")
    status = answer.get("status")
    if not isinstance(status, dict):
        raise InvalidAnswer("the response has no status")
    allowed, denied = status.get("allowed") or False, status.get("denied") or False
    reason = status.get("reason") or ""
    if not isinstance(allowed, bool) or not isinstance(denied, bool) or not isinstance(reason, str):
        raise InvalidAnswer("the status of the response has fields of wrong types")
    reason = reason[:REASON_LENGTH_MAX]
    if allowed and denied:
        both = "webhook subject access review returned both allow and deny response"
        return Verdict(Decision.DENY, reason, both)
    if denied:
        return Verdict(Decision.DENY, reason)
    return Verdict(Decision.ALLOW if allowed else Decision.NO_OPINION, reason)


def expression_request(spec: Document) -> Document:
    """Returns a spec for expressions: with all fields that are strings, even empty ones."""
    request: Document = {
        "user": spec.get("user", ""),
        "groups": spec.get("groups", []),
        "uid": spec.get("uid", ""),
        "extra": spec.get("extra", {}),
    }
    if (about := spec.get("resourceAttributes")) is not None:
        request["resourceAttributes"] = dict.fromkeys(_RESOURCE_FIELDS, "") | about
    if (other := spec.get("nonResourceAttributes")) is not None:
        request["nonResourceAttributes"] = {"path": "", "verb": ""} | other
    return request
