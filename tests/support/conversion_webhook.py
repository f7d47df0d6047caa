"""A conversion webhook whose behaviour a test sets, served over HTTPS from a thread of its own."""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from aiohttp import web

from apiserver.serving import pki
from tests.support.eventually import WITHIN_S

Review = dict[str, Any]
# What is answered to a review: a document, or bytes as they are.
Answering = Callable[[Review], Awaitable[Review | bytes]]


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


class ConversionWebhook:
    """The webhook. answering: makes its answers. asked: the number of objects in each request so far."""

    def __init__(self, directory: Path) -> None:
        self._pki = pki.ensure(directory, ["127.0.0.1", "localhost"])
        self.answering: Answering = honest
        self.asked: list[int] = []
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/convert"

    @property
    def serving_certificate(self) -> bytes:
        """The certificate that it presents, in PEM, without that of its authority."""
        return self._pki.serving_cert.read_bytes()

    def conversion(self, **client: Any) -> dict[str, Any]:
        """The `spec.conversion` of a definition. client: fields that replace those of its `clientConfig`."""
        bundle = base64.b64encode(self._pki.ca_cert.read_bytes()).decode()
        return {
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"url": self.url, "caBundle": bundle, **client},
            },
        }

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(WITHIN_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._stopping is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        runner = web.ServerRunner(web.Server(self._handle))
        await runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._pki.serving_cert, self._pki.serving_key)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        assert runner.addresses
        self.port = runner.addresses[0][1]
        self._started.set()
        await self._stopping.wait()
        await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        review = orjson.loads(await request.read())
        self.asked.append(len(review["request"]["objects"]))
        answer = await self.answering(review)
        body = answer if isinstance(answer, bytes) else orjson.dumps(answer)
        response = web.Response(body=body, content_type="application/json")
        # So that none is open when the loop ends.
        response.force_close()
        return response
