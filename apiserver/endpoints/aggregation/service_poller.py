"""Downloads documents of extension servers in the background: after each change of a version, and every
minute.

The last document is kept while a service is unreachable. Requests have its ETag, so that an unchanged
document is not sent again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, Generic, TypeVar

from apiserver.controller_runtime.controller import Controller, Outcome
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.endpoints.aggregation.extension_client import (
    ExtensionClient,
    ExtensionRequest,
    ExtensionResponse,
)
from apiserver.endpoints.aggregation.remote_versions import RemoteVersion, RemoteVersions, ServiceReference
from apiserver.load.offload import Offload
from apiserver.wire.media_types import JSON

S = TypeVar("S")

REFRESH_S: Final = 60.0
WORKERS: Final = 2
_ETAG_LENGTH_MAX: Final = 1_000


class ServicePoller(ABC, Generic[S]):
    """A controller that keeps documents of the services of remote versions.

    queue_name, backoff: those of its work queue.
    within_s, bytes_max: the limits of a response's duration and size.
    """

    queue_name: ClassVar[str]
    backoff: ClassVar[Backoff]
    within_s: ClassVar[float]
    bytes_max: ClassVar[int]

    def __init__(self, remote: RemoteVersions, client: ExtensionClient, offload: Offload) -> None:
        self.remote, self._client, self.offload = remote, client, offload
        self.answered: dict[ServiceReference, S] = {}
        self.queue: WorkQueue[ServiceReference] = WorkQueue(self.queue_name, self.backoff)
        remote.on_change(self._on_change)

    async def run(self) -> None:
        """Download documents until cancelled."""
        await Controller(self.queue, self._reconcile, workers=WORKERS).run()

    @abstractmethod
    async def refresh(
        self, service: ServiceReference, versions: Sequence[RemoteVersion], available: Sequence[RemoteVersion]
    ) -> Outcome:
        """Download the documents of a service. available: its versions that can be reached."""

    async def get(
        self, version: RemoteVersion, path: str, *, accept: str = JSON, etag: str = ""
    ) -> ExtensionResponse:
        """Returns the response of a version's service to a GET. Raises ExtensionFailed.

        etag: that of the known document; the response is 304 if it has not changed.
        """
        headers = [("Accept", accept), *([("If-None-Match", etag)] if etag else ())]
        return await self._client.ask(
            version,
            ExtensionRequest(path=path, headers=headers, bytes_max=self.bytes_max, timeout_s=self.within_s),
        )

    def _on_change(self, old: RemoteVersion | None, new: RemoteVersion | None) -> None:
        for each in (old, new):
            if each is not None:
                self.queue.add(each.service)

    async def _reconcile(self, service: ServiceReference) -> Outcome:
        versions = [each for each in self.remote.current.versions.values() if each.service == service]
        if not versions:
            self.answered.pop(service, None)
            return None
        return await self.refresh(
            service, versions, [each for each in versions if self.remote.is_available(each)]
        )


def etag_of(answer: ExtensionResponse) -> str:
    """Returns the ETag of a response; empty if it has none, or one that is too long to be kept."""
    etag = answer.headers.get("etag", "")
    return etag if len(etag) <= _ETAG_LENGTH_MAX else ""
