"""Marks Secrets whose tokens are used with the day, and counts such uses, so that they can be replaced.

Every server does so for its own requests, in the background.
Source: k8s.io/kubernetes, pkg/serviceaccount/legacy.go.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from apiserver.auth.authn.service_account import TokenUses
from apiserver.controller_runtime.controller import Controller, Outcome
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.meta import timestamps
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document
from apiserver.metrics.authentication import AuthenticationMetrics
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_APISERVER, ProposedObject, WriteRequest

LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
BACKOFF: Final = Backoff(base_s=1.0, max_s=60.0)
_DAY_S: Final = 86_400.0
_DAY_LENGTH: Final = len("2006-01-02")

Key = tuple[str, str, str]  # namespace, name and uid


class LegacyTokenUses(TokenUses):
    """Marks Secrets with the day on which their token was last used. clock: seconds since 1970."""

    def __init__(
        self,
        registry: Registry,
        served: ServedTable,
        metrics: AuthenticationMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._registry, self._served, self._metrics, self._clock = registry, served, metrics, clock
        self.queue: WorkQueue[Key] = WorkQueue("legacy_serviceaccount_token_uses", BACKOFF)

    def legacy(self, namespace: str, secret: Document | None, *, is_of_account: bool) -> None:
        self._metrics.legacy_token_used(is_looked_up=secret is not None, is_of_account=is_of_account)
        if secret is not None:
            self._mark(namespace, secret)

    def invalidated(self, namespace: str, secret: Document) -> None:
        self._metrics.invalid_legacy_tokens += 1
        self._mark(namespace, secret)

    def timed(self, *, is_stale: bool) -> None:
        if is_stale:
            self._metrics.stale_tokens += 1
        else:
            self._metrics.valid_tokens += 1

    async def run(self) -> None:
        """Mark Secrets until cancelled."""
        await Controller(self.queue, self._reconcile).run()

    async def _reconcile(self, key: Key) -> Outcome:
        namespace, name, uid = key
        secrets = self._served.require("", "secrets")

        def marked(current: StoredObject) -> ProposedObject:
            document = current.document()
            if document["metadata"]["uid"] == uid and not self._is_marked(document):
                labels = {**_labels(document), LAST_USED: self._today()}
                document = {**document, "metadata": {**document["metadata"], "labels": labels}}
            return ProposedObject(document)

        request = WriteRequest(resource=secrets, namespace=namespace, name=name, writer=KUBE_APISERVER)
        with suppress(NotFound):  # Then its token is not valid any more.
            await self._registry.update(request, marked)
        return None

    def _mark(self, namespace: str, secret: Document) -> None:
        """Schedule marking a Secret, unless it is marked."""
        if not self._is_marked(secret):
            meta = secret["metadata"]
            self.queue.add((namespace, meta["name"], meta["uid"]))

    def _is_marked(self, secret: Document) -> bool:
        """Returns whether a Secret is marked with today, or with tomorrow by a server whose clock is
        ahead.
        """
        return _labels(secret).get(LAST_USED) in (self._today(), self._today(_DAY_S))

    def _today(self, ahead_s: float = 0.0) -> str:
        return timestamps.to_text(self._clock() + ahead_s)[:_DAY_LENGTH]


def _labels(document: Document) -> dict[str, str]:
    found = document["metadata"].get("labels")
    return found if isinstance(found, dict) else {}
