"""A conversion webhook whose behaviour a test sets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.support.webhook_server import Reply, Review, WebhookServer

# What is answered to a review: a document, or bytes as they are.
Converting = Callable[[Review], Awaitable[Review | bytes]]


def convert(document: dict[str, Any], desired: str) -> dict[str, Any]:
    """Convert between v1, which has the number `spec.size`, and v2, which has it as text in `spec.length`."""
    spec = dict(document.get("spec") or {})
    if desired.endswith("/v2") and "size" in spec:
        spec["length"] = f"{spec.pop('size')}cm"
    elif desired.endswith("/v1") and "length" in spec:
        spec["size"] = int(spec.pop("length").removesuffix("cm"))
    return {**document, "apiVersion": desired, **({"spec": spec} if spec else {})}


def answer_to(review: Review) -> Review:
    """The review that a correct webhook returns."""
    request = review["request"]
    return {
        "apiVersion": review["apiVersion"],
        "kind": review["kind"],
        "response": {
            "uid": request["uid"],
            "convertedObjects": [convert(each, request["desiredAPIVersion"]) for each in request["objects"]],
            "result": {"status": "Success"},
        },
    }


async def honest(review: Review) -> Review | bytes:
    return answer_to(review)


class ConversionWebhook(WebhookServer):
    """The webhook. converting: makes its answers. asked: the number of objects in each request so far."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.converting: Converting = honest
        self.asked: list[int] = []

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/convert"

    def conversion(self, **client: Any) -> dict[str, Any]:
        """The `spec.conversion` of a definition. client: fields that replace those of its `clientConfig`."""
        return {
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"url": self.url, "caBundle": self.ca_bundle, **client},
            },
        }

    async def answer(self, path: str, review: Review) -> Reply:
        self.asked.append(len(review["request"]["objects"]))
        return await self.converting(review)
