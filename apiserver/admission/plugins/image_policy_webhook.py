"""Asks another server about the images of pods, and remembers for a while what it has answered.

Its annotations for the audit log are ignored: there is none.
Source: kubernetes, plugin/pkg/admission/imagepolicy; k8s.io/apiserver, pkg/util/webhook/webhook.go.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.configuration.image_policy import ImagePolicy
from apiserver.admission.listers import refused
from apiserver.admission.plugins.pod_specs import PODS, containers
from apiserver.admission.webhooks.webhook import CallerFactory
from apiserver.brand import Brand
from apiserver.errors import Timeout
from apiserver.vocabulary import Document, GroupResource
from apiserver.webhooks.client_config import ClientConfig
from apiserver.webhooks.credential_files import CredentialFiles
from apiserver.webhooks.credentials import HostCredentials
from apiserver.webhooks.errors import CallFailed

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 30
ATTEMPTS_MAX: Final = 5
BACKOFF_FACTOR: Final = 1.5
BACKOFF_JITTER: Final = 0.2
# Answers that are remembered.
ANSWERS_MAX: Final = 1_024
# Annotations of pods that the other server is told.
_TOLD: Final = ".image-policy.k8s.io/"


class ImagePolicyWebhook(Plugin):
    name = "ImagePolicyWebhook"

    def __init__(
        self,
        policy: ImagePolicy,
        caller_with: CallerFactory,
        brand: Brand,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """clock: seconds since some time."""
        self._policy = policy
        self._caller = caller_with(HostCredentials(otherwise=policy.credentials))
        self._files = CredentialFiles()
        self._head = {"apiVersion": f"{brand.group('imagepolicy')}/v1alpha1", "kind": "ImageReview"}
        self._clock, self._sleep = clock, sleep
        # What was answered to a review, by its digest, and until when that counts; the last one at the end.
        self._answers: OrderedDict[bytes, tuple[float, Document]] = OrderedDict()

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return (
            resource == PODS
            and subresource in ("", "ephemeralcontainers")
            and operation in (Operation.CREATE, Operation.UPDATE)
        )

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> None:
        """Raises Forbidden."""
        if new is None:
            return
        body = orjson.dumps({**self._head, "spec": _review(attributes, new)}, option=orjson.OPT_SORT_KEYS)
        key = hashlib.sha256(body).digest()
        status = self._known(key)
        if status is None:
            try:
                status = await self._ask(attributes, body)
            except CallFailed as failed:
                if self._policy.allows_by_default:
                    log.warning("images are not checked: %s", failed)
                    return
                raise refused(attributes, new, str(failed)) from None
            self._remember(key, status)
        if not status["allowed"]:
            why = status.get("reason")
            denied = "image policy webhook backend denied one or more images"
            refusal = f"{denied}: {why}" if why else "one or more images rejected by webhook backend"
            raise refused(attributes, new, refusal)

    def _known(self, key: bytes) -> Document | None:
        until, status = self._answers.get(key, (0.0, None))
        return status if self._clock() < until else None

    def _remember(self, key: bytes, status: Document) -> None:
        ttl_s = self._policy.allow_ttl_s if status["allowed"] else self._policy.deny_ttl_s
        self._answers.pop(key, None)
        self._answers[key] = self._clock() + ttl_s, status
        if len(self._answers) > ANSWERS_MAX:
            self._answers.popitem(last=False)

    async def _ask(self, attributes: AdmissionAttributes, body: bytes) -> Document:
        """Returns the status of the review. Raises CallFailed."""
        cluster = self._policy.cluster
        bundle = await self._files.pem(cluster.authorities) if cluster.authorities is not None else b""
        server = ClientConfig(cluster.server, base64.b64encode(bundle).decode(), cluster.tls_server_name)
        pause_s = self._policy.backoff_s
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return _status(await self._caller.post(server, body, _timeout_s(attributes)))
            except CallFailed as failed:
                if not failed.is_transient or attempt == ATTEMPTS_MAX:
                    raise
            # Random, so that not all who have failed together come back together.
            await self._sleep(pause_s * (1 + BACKOFF_JITTER * random.random()))  # noqa: S311  no secret
            pause_s *= BACKOFF_FACTOR
        raise AssertionError("the last attempt returns or raises")


def _timeout_s(attributes: AdmissionAttributes) -> int:
    """Raises Timeout if the client's time is over."""
    if attributes.deadline is None:
        return TIMEOUT_S
    remaining_s = attributes.deadline - asyncio.get_running_loop().time()
    if remaining_s <= 0:
        raise Timeout.of_request()
    return min(TIMEOUT_S, int(remaining_s) + 1)


def _review(attributes: AdmissionAttributes, pod: Document) -> Document:
    """Returns the spec of the review."""
    is_debugged = attributes.subresource == "ephemeralcontainers"
    fields = ("ephemeralContainers",) if is_debugged else ("containers", "initContainers")
    annotations = pod["metadata"].get("annotations") or {}
    told = {key: value for key, value in annotations.items() if _TOLD in key}
    return {
        "containers": [{"image": each.get("image", "")} for each in containers(pod["spec"], *fields)],
        **({"annotations": told} if told else {}),
        "namespace": attributes.namespace,
    }


def _status(document: Any) -> Document:
    """Raises CallFailed for what is no review that has been answered."""
    if isinstance(document, dict) and document.get("kind") in (None, "", "ImageReview"):
        status = document.get("status")
        if isinstance(status, dict) and isinstance(status.get("allowed", False), bool):
            reason = status.get("reason")
            return {
                "allowed": status.get("allowed", False),
                "reason": reason if isinstance(reason, str) else "",
            }
    raise CallFailed("the answer is not an ImageReview with a status")
