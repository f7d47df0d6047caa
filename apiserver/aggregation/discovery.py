"""Asks extension servers what they serve, in the background, for the merged documents of discovery.

A server is asked when one of its APIServices comes or changes, or becomes available, and every minute. What
it has said before is kept while it cannot be asked, and told to be stale. It is asked with an ETag, so that
what has not changed is not sent again; one that has no aggregated discovery is asked for each version.
Source: k8s.io/kube-aggregator, pkg/apiserver/handler_discovery.go, pkg/controllers/openapiv3.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from apiserver.aggregation.extension_client import (
    ExtensionClient,
    ExtensionFailed,
    ExtensionRequest,
    ExtensionResponse,
)
from apiserver.aggregation.remote_versions import (
    DiscoveredVersion,
    RemoteVersion,
    RemoteVersions,
    ServiceReference,
)
from apiserver.aggregation.resource_lists import NotDiscovery, aggregated_resources, listed_resources
from apiserver.controller_runtime.controller import Controller, Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.load.offload import Offload
from apiserver.load.size_class import size_class
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.wire import json_text

log = logging.getLogger(__name__)

T = TypeVar("T")

BACKOFF: Final = Backoff(base_s=0.2, max_s=60.0)
REFRESH_S: Final = 60.0
WORKERS: Final = 2
# As in Kubernetes.
ANSWER_WITHIN_S: Final = 5.0
# Of a document of discovery. That of all of Kubernetes has 100 KB.
DOCUMENT_BYTES_MAX: Final = 4 * 1024 * 1024
_ETAG_LENGTH_MAX: Final = 1_000
_URL: Final = re.compile(r"[!-~]{1,1000}")


@dataclass(slots=True)
class _Known:
    """What a service has said last. etag: of that, if it has one."""

    resources: Mapping[GroupVersion, tuple[Document, ...]] = field(default_factory=dict)
    openapi: Mapping[str, str] = field(default_factory=dict)
    etag: str = ""


class DiscoveryController:
    """Tells `remote` what the servers of its versions serve."""

    def __init__(
        self, remote: RemoteVersions, client: ExtensionClient, brand: Brand, offload: Offload
    ) -> None:
        self._remote = remote
        self._client = client
        self._offload = offload
        self._accept = ",".join(
            f"application/json;g={brand.discovery_group};v={version};as=APIGroupDiscoveryList"
            for version in ("v2", "v2beta1")
        )
        self._known: dict[ServiceReference, _Known] = {}
        self.queue: WorkQueue[ServiceReference] = WorkQueue("discovery-manager", BACKOFF)
        remote.on_change(self._on_change)

    async def run(self) -> None:
        """Ask until cancelled."""
        await Controller(self.queue, self._reconcile, workers=WORKERS).run()

    def _on_change(self, old: RemoteVersion | None, new: RemoteVersion | None) -> None:
        for each in (old, new):
            if each is not None:
                self.queue.add(each.service)

    async def _reconcile(self, service: ServiceReference) -> Outcome:
        versions = [each for each in self._remote.current.versions.values() if each.service == service]
        if not versions:
            self._known.pop(service, None)
            return None
        known = self._known.setdefault(service, _Known())
        available = [each for each in versions if self._remote.is_available(each)]
        try:
            if not available:
                raise ExtensionFailed("service unavailable")
            await self._ask(known, available)
        except (ExtensionFailed, NotDiscovery) as error:
            log.info("%s does not tell what it serves: %s", service, error)
            self._tell(versions, known, is_current=False)
            # While it is not available, nothing has to be asked until it is.
            return Requeue() if available else None
        self._tell(versions, known, is_current=True)
        return Requeue(after_s=REFRESH_S)

    def _tell(self, versions: Iterable[RemoteVersion], known: _Known, *, is_current: bool) -> None:
        self._remote.set_discovered(
            (
                each,
                DiscoveredVersion(
                    known.resources.get(each.group_version, ()),
                    is_current,
                    known.openapi.get(f"apis/{each.group_version}", ""),
                ),
            )
            for each in versions
        )

    async def _ask(self, known: _Known, versions: Sequence[RemoteVersion]) -> None:
        """Asks for everything. Raises ExtensionFailed, NotDiscovery."""
        headers = {"Accept": self._accept}
        if known.etag:
            headers["If-None-Match"] = known.etag
        answer = await self._get(versions[0], "/apis", headers)
        if answer.status == 200:
            try:
                known.resources = await self._read(answer, aggregated_resources)
                etag = answer.headers.get("etag", "")
                known.etag = etag if len(etag) <= _ETAG_LENGTH_MAX else ""
            except NotDiscovery:
                await self._ask_for_each(known, versions)
        elif answer.status in (404, 406):
            await self._ask_for_each(known, versions)
        elif answer.status != 304:
            raise ExtensionFailed(f"{answer.url} returned non-success response code: {answer.status}")
        known.openapi = await self._openapi(versions[0])

    async def _ask_for_each(self, known: _Known, versions: Sequence[RemoteVersion]) -> None:
        """Asks a server that has no aggregated discovery. Raises ExtensionFailed, NotDiscovery."""
        found = {}
        for each in versions:
            path = f"/apis/{each.group_version}"
            answer = await self._get(each, path, {"Accept": "application/json"})
            if answer.status != 200:
                raise ExtensionFailed(f"failed to download discovery for {path}: {answer.status}")
            read = partial(listed_resources, group_version=each.group_version)
            found[each.group_version] = await self._read(answer, read)
        known.resources, known.etag = found, ""

    async def _openapi(self, version: RemoteVersion) -> Mapping[str, str]:
        """Returns the URLs of the documents of OpenAPI v3 by their names. Raises ExtensionFailed."""
        answer = await self._get(version, "/openapi/v3", {"Accept": "application/json"})
        if answer.status != 200:
            return {}
        try:
            return await self._read(answer, _openapi_urls)
        except NotDiscovery:
            return {}

    async def _get(self, version: RemoteVersion, path: str, headers: Mapping[str, str]) -> ExtensionResponse:
        """Raises ExtensionFailed."""
        question = ExtensionRequest(
            path=path,
            headers=tuple(headers.items()),
            bytes_max=DOCUMENT_BYTES_MAX,
            timeout_s=ANSWER_WITHIN_S,
        )
        return await self._client.ask(version, question)

    async def _read(self, answer: ExtensionResponse, read: Callable[[Any], T]) -> T:
        """Returns what a document says. Raises NotDiscovery: it is no JSON, or has too many values."""

        def parse() -> T:
            return read(json_text.load(answer.body))

        try:
            return await self._offload.run_begun(size_class(len(answer.body)), parse)
        except ValueError as error:
            raise NotDiscovery(f"{answer.url}: {error}") from None


def _openapi_urls(document: Any) -> Mapping[str, str]:
    """Returns the URLs that lead back here, where requests for them are forwarded."""
    paths = document.get("paths") if isinstance(document, dict) else None
    urls = {
        name: each.get("serverRelativeURL")
        for name, each in (paths if isinstance(paths, dict) else {}).items()
        if isinstance(each, dict)
    }
    return {
        name: url
        for name, url in urls.items()
        if isinstance(url, str) and url.partition("?")[0] == f"/openapi/v3/{name}" and _URL.fullmatch(url)
    }
