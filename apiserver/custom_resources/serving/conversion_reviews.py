"""ConversionReviews: the requests to conversion webhooks, and the validation of responses.

Invalid responses have the errors of Kubernetes.
Source: k8s.io/apiextensions-apiserver, pkg/apiserver/conversion/{converter,webhook_converter}.go.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from apiserver.custom_resources.serving.converted_objects import InvalidObject, with_original_identity
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.webhooks import REVIEW_VERSIONS

# kube-apiserver sends the fields of an answer, too: empty, as Go writes them.
_NO_RESPONSE: Final[Document] = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
_KIND: Final = "ConversionReview"


class WebhookFailure(enum.StrEnum):
    """The type of a webhook's failure, as in metrics."""

    CALL = "conversion_webhook_call_failure"
    MALFORMED_RESPONSE = "conversion_webhook_malformed_response_failure"
    PARTIAL_RESPONSE = "conversion_webhook_partial_response_failure"
    INVALID_OBJECT = "conversion_webhook_invalid_converted_object_failure"


class WebhookError(Exception):
    """A webhook failed, or its response was invalid; the message is for the client."""

    def __init__(self, message: str, failure: WebhookFailure = WebhookFailure.CALL) -> None:
        super().__init__(message)
        self.failure = failure


def review_version(accepted: Sequence[str]) -> str | None:
    """Returns the first of the accepted versions that is known here."""
    return next((each for each in accepted if each in REVIEW_VERSIONS), None)


class ConversionReview(NamedTuple):
    """A request to convert objects.

    group: that of definitions. version: that of the review. desired: the apiVersion to convert to.
    """

    group: str
    version: str
    uid: str
    objects: Sequence[Document]
    desired: str

    def document(self) -> Document:
        request = {"uid": self.uid, "desiredAPIVersion": self.desired, "objects": list(self.objects)}
        review = {"kind": _KIND, "apiVersion": f"{self.group}/{self.version}", "request": request}
        return {**review, "response": _NO_RESPONSE}

    def converted(self, response: Any) -> list[Document]:
        """Returns the converted objects of a webhook's response. Raises WebhookError."""
        subject = f"conversion webhook for {gvk(self.objects[0])}"
        try:
            given = self._converted_objects(response)
        except WebhookError as error:
            raise WebhookError(f"{subject} failed: {error}", WebhookFailure.MALFORMED_RESPONSE) from None
        if len(given) != len(self.objects):
            raise WebhookError(
                f"{subject} returned {len(given)} objects, expected {len(self.objects)}",
                WebhookFailure.PARTIAL_RESPONSE,
            )
        documents = []
        for index, (original, each) in enumerate(zip(self.objects, given, strict=True)):
            try:
                documents.append(with_original_identity(original, each, self.desired))
            except InvalidObject as error:
                raise WebhookError(
                    f"{subject} returned invalid converted object at index {index}: {error}",
                    WebhookFailure.INVALID_OBJECT,
                ) from None
        return documents

    def _converted_objects(self, review: Any) -> list[Any]:
        """Returns `response.convertedObjects` of a successful review. Raises WebhookError."""
        if not isinstance(review, dict):
            raise WebhookError("couldn't get version/kind; json parse error: the response is not an object")
        expected = {"apiVersion": f"{self.group}/{self.version}", "kind": _KIND}
        is_expected = (review.get("apiVersion"), review.get("kind")) == tuple(expected.values())
        if self.version == "v1" and not is_expected:
            raise WebhookError(f"expected webhook response of {gvk(expected)}, got {gvk(review)}")
        response = review.get("response")
        if not isinstance(response, dict):
            raise WebhookError("no response provided")
        if self.version == "v1" and response.get("uid") != self.uid:
            raise WebhookError(f'expected response.uid="{self.uid}", got "{response.get("uid", "")}"')
        result = response.get("result")
        result = result if isinstance(result, dict) else {}
        if result.get("status") != "Success":
            message = result.get("message")
            status = result.get("status", "")
            raise WebhookError(
                str(message) if message else f"response.result.status was '{status}', not 'Success'"
            )
        objects = response.get("convertedObjects") or []
        if not isinstance(objects, list):
            raise WebhookError("response.convertedObjects is not a list")
        return objects


def gvk(document: Document) -> str:
    """Returns a kind as Go prints it: `example.com/v1, Kind=Widget`."""
    return f"{document.get('apiVersion', '')}, Kind={document.get('kind', '')}"
