"""Asks a webhook about the images of pods, and caches its responses.

Its annotations are added to the audit event of the request.
Source: kubernetes, plugin/pkg/admission/imagepolicy.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.configuration.image_policy import ImagePolicy
from apiserver.admission.listers import refused
from apiserver.admission.plugins.pod_specs import PODS, containers
from apiserver.meta.brand import Brand
from apiserver.meta.expiring_cache import ExpiringCache
from apiserver.meta.vocabulary import Document
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.failure_log import FailureLog
from apiserver.webhooks.review_server import CallerFactory, ReviewServer

log = logging.getLogger(__name__)

# Answers that are remembered.
ANSWERS_MAX: Final = 1_024
# An annotation of pods that were not checked.
FAILED_OPEN: Final = "alpha.image-policy.k8s.io/failed-open"
# What its annotations of audit events begin with.
_AUDIT_PREFIX: Final = "imagepolicywebhook.image-policy.k8s.io/"
# Annotations of pods that are sent to the webhook.
_TOLD: Final = ".image-policy.k8s.io/"


class ImagePolicyWebhook(Plugin):
    name = "ImagePolicyWebhook"
    handled = writes(PODS) | writes(PODS, subresource="ephemeralcontainers")

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
        self._server = ReviewServer(policy.cluster, policy.credentials, caller_with, policy.backoff_s, sleep)
        self._head = {"apiVersion": f"{brand.group('imagepolicy')}/v1alpha1", "kind": "ImageReview"}
        self._clock = clock
        self._failures = FailureLog(log, logging.WARNING, clock)
        self._answers: ExpiringCache[Document] = ExpiringCache(ANSWERS_MAX, clock)

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        """Ask the webhook about the images of a pod. Raises Forbidden."""
        body = orjson.dumps({**self._head, "spec": _review(attributes, new)}, option=orjson.OPT_SORT_KEYS)
        key = hashlib.sha256(body).digest()
        status = self._answers.get(key)
        if status is None:
            try:
                with attributes.without_slot():
                    answer = await self._server.ask(body, attributes.deadline)
                status = _status(answer)
                self._failures.responded(self.name, "the image policy webhook")
            except CallFailed as failed:
                decision = "allowed" if self._policy.allows_by_default else "refused"
                self._failures.failed(self.name, f"cannot check images; the pod is {decision}: {failed}")
                if self._policy.allows_by_default:
                    attributes.annotate(f"{_AUDIT_PREFIX}failed-open", "true")
                    meta = new["metadata"]
                    meta["annotations"] = {**(meta.get("annotations") or {}), FAILED_OPEN: "true"}
                    return
                raise refused(attributes, new, str(failed)) from None
            ttl_s = self._policy.allow_ttl_s if status["allowed"] else self._policy.deny_ttl_s
            self._answers.put(key, status, self._clock() + ttl_s)
        for name, value in status["auditAnnotations"].items():
            attributes.annotate(f"{_AUDIT_PREFIX}{name}", value)
        if not status["allowed"]:
            why = status.get("reason")
            denied = "image policy webhook backend denied one or more images"
            refusal = f"{denied}: {why}" if why else "one or more images rejected by webhook backend"
            raise refused(attributes, new, refusal)


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
    """Returns the status of an answered review."""
    if isinstance(document, dict) and document.get("kind") in (None, "", "ImageReview"):
        status = document.get("status")
        if isinstance(status, dict) and isinstance(status.get("allowed", False), bool):
            reason = status.get("reason")
            return {
                "allowed": status.get("allowed", False),
                "reason": reason if isinstance(reason, str) else "",
                "auditAnnotations": _texts(status.get("auditAnnotations")),
            }
    raise CallFailed("the response is not an ImageReview with a status")


def _texts(found: object) -> dict[str, str]:
    """Returns the members of an object whose values are strings."""
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)}
