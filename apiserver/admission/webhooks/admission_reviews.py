"""AdmissionReviews: the requests to webhooks, and the validation of their responses. Pure.

Errors about invalid responses have Kubernetes' texts.
Source: k8s.io/apiserver, pkg/admission/plugin/webhook/request/admissionreview.go.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from apiserver.admission import responses
from apiserver.admission.responses import InvalidAnswer
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.webhooks import REVIEW_VERSIONS
from apiserver.wire import json_text

_KIND: Final = "AdmissionReview"
_JSON_PATCH: Final = "JSONPatch"


class ReviewResponse(NamedTuple):
    """The response of a webhook.

    patch: the operations of a JSON patch, undecoded; empty if there is none.
    patch_type: as in the response. result: the Status of a refusal, of the right types.
    audit_annotations: those for the audit event.
    """

    is_allowed: bool
    patch: bytes = b""
    patch_type: str = ""
    result: Document = {}
    warnings: Sequence[str] = ()
    audit_annotations: Mapping[str, str] = {}


def review_version(accepted: Sequence[str]) -> str | None:
    """Returns the first of the accepted versions that is known here."""
    return next((each for each in accepted if each in REVIEW_VERSIONS), None)


def encode(group: str, version: str, request: Document) -> bytes:
    """Returns the body that is sent to a webhook. request: contains encoded objects."""
    return orjson.dumps({"kind": _KIND, "apiVersion": f"{group}/{version}", "request": request})


def read(review: Any, group: str, version: str, uid: str, *, may_patch: bool) -> ReviewResponse:
    """Returns the response in a review.

    version: that of the sent review. uid: that of its request. may_patch: whether it is a mutating webhook.
    Raises InvalidAnswer.
    """
    if not isinstance(review, dict):
        raise InvalidAnswer("the webhook response is not an object")
    response = review.get("response")
    if response is None:
        raise InvalidAnswer("webhook response was absent")
    if not isinstance(response, dict):
        raise InvalidAnswer("response is not an object")
    if version == "v1" and responses.text(response, "uid") != uid:
        raise InvalidAnswer(f'expected response.uid="{uid}", got "{responses.text(response, "uid")}"')
    expected = f"{group}/{version}, Kind={_KIND}"
    found = f"{review.get('apiVersion') or ''}, Kind={review.get('kind') or ''}"
    if found != expected:
        raise InvalidAnswer(f"expected webhook response of {expected}, got {found}")
    patch, patch_type = _patch(response, version, may_patch=may_patch)
    is_allowed = response.get("allowed") or False
    if not isinstance(is_allowed, bool):
        raise InvalidAnswer("response.allowed is not a boolean")
    return ReviewResponse(
        is_allowed,
        patch,
        patch_type,
        responses.status(response),
        responses.warnings(response),
        responses.audit_annotations(response),
    )


def _patch(response: Document, version: str, *, may_patch: bool) -> tuple[bytes, str]:
    encoded, patch_type = responses.text(response, "patch"), response.get("patchType")
    if patch_type is not None and not isinstance(patch_type, str):
        raise InvalidAnswer("response.patchType is not a string")
    try:
        patch = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidAnswer(f"response.patch is not base64: {error}") from None
    if version != "v1":
        return (patch, _JSON_PATCH if patch else "") if may_patch else (b"", "")
    if not may_patch:
        if patch or patch_type is not None:
            raise InvalidAnswer("validating webhook may not return response.patch or response.patchType")
        return b"", ""
    if patch and patch_type is None:
        raise InvalidAnswer("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise InvalidAnswer("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise InvalidAnswer('webhook returned invalid response.patchType of ""')
    return patch, patch_type or ""


def operations(answer: ReviewResponse) -> list[Any]:
    """Returns the operations of a response's patch. Raises InvalidAnswer."""
    try:
        decoded = json_text.load(answer.patch)
    except (json_text.InvalidJson, json_text.TooManyValues) as error:
        raise InvalidAnswer(f"received undecodable patch in webhook response: {error}") from None
    if answer.patch_type != _JSON_PATCH:
        raise InvalidAnswer(f'unsupported patch type "{answer.patch_type}"')
    if decoded is not None and not isinstance(decoded, list):
        raise InvalidAnswer(
            "received undecodable patch in webhook response: json: cannot unmarshal into Go value of type "
            "jsonpatch.Patch"
        )
    return decoded or []
