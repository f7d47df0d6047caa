"""Discovers the resources of extension servers, for the merged documents of discovery.

A server without aggregated discovery is asked for each version. The last result is marked as stale while the
server is unreachable.
Source: k8s.io/kube-aggregator, pkg/apiserver/handler_discovery.go, pkg/controllers/openapiv3.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from apiserver.controller_runtime.controller import Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff
from apiserver.endpoints.aggregation.extension_client import (
    ExtensionClient,
    ExtensionFailed,
    ExtensionResponse,
)
from apiserver.endpoints.aggregation.remote_versions import (
    DiscoveredVersion,
    RemoteVersion,
    RemoteVersions,
    ServiceReference,
)
from apiserver.endpoints.aggregation.resource_lists import (
    NotDiscovery,
    aggregated_resources,
    listed_resources,
)
from apiserver.endpoints.aggregation.service_poller import REFRESH_S, ServicePoller, etag_of
from apiserver.load.offload import Offload
from apiserver.load.size_class import size_class
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.wire import json_text

log = logging.getLogger(__name__)

T = TypeVar("T")

_URL: Final = re.compile(r"[!-~]{1,1000}")


@dataclass(slots=True)
class _DiscoveredService:
    """The last response of a service. etag: that of `resources`. openapi: URLs of OpenAPI v3, by name."""

    resources: Mapping[GroupVersion, tuple[Document, ...]] = field(default_factory=dict)
    openapi: Mapping[str, str] = field(default_factory=dict)
    etag: str = ""


class DiscoveryController(ServicePoller[_DiscoveredService]):
    """Keeps the discovered resources of remote versions up to date."""

    queue_name = "discovery-manager"
    backoff = Backoff(base_s=0.2, max_s=60.0)
    within_s = 5.0  # As in Kubernetes.
    # The document of all of Kubernetes has 100 KB.
    bytes_max: ClassVar = 4 * 1024 * 1024

    def __init__(
        self, remote: RemoteVersions, client: ExtensionClient, brand: Brand, offload: Offload
    ) -> None:
        super().__init__(remote, client, offload)
        self._accept = ",".join(
            f"application/json;g={brand.discovery_group};v={version};as=APIGroupDiscoveryList"
            for version in ("v2", "v2beta1")
        )

    async def refresh(
        self, service: ServiceReference, versions: Sequence[RemoteVersion], available: Sequence[RemoteVersion]
    ) -> Outcome:
        known = self.answered.setdefault(service, _DiscoveredService())
        failure: Exception | None = None
        try:
            if not available:
                raise ExtensionFailed("service unavailable")
            await self._ask(known, available)
        except (ExtensionFailed, NotDiscovery) as error:
            log.info("cannot discover the resources of %s: %s", service, error)
            failure = error
        self.remote.set_discovered(
            (
                each,
                DiscoveredVersion(
                    known.resources.get(each.group_version, ()),
                    failure is None,
                    known.openapi.get(f"apis/{each.group_version}", ""),
                ),
            )
            for each in versions
        )
        if failure is None:
            return Requeue(after_s=REFRESH_S)
        return Requeue() if available else None  # It is added when it becomes available.

    async def _ask(self, known: _DiscoveredService, versions: Sequence[RemoteVersion]) -> None:
        """Discovers everything that a server has. Raises ExtensionFailed, NotDiscovery."""
        answer = await self.get(versions[0], "/apis", accept=self._accept, etag=known.etag)
        if answer.status == 200:
            try:
                known.resources = await self._read(answer, aggregated_resources)
                known.etag = etag_of(answer)
            except NotDiscovery:
                await self._ask_for_each(known, versions)
        elif answer.status in (404, 406):
            await self._ask_for_each(known, versions)
        elif answer.status != 304:
            raise ExtensionFailed(f"{answer.url} returned non-success response code: {answer.status}")
        known.openapi = await self._openapi(versions[0])

    async def _ask_for_each(self, known: _DiscoveredService, versions: Sequence[RemoteVersion]) -> None:
        """Discovers the resources of a server without aggregated discovery.

        Raises ExtensionFailed, NotDiscovery.
        """
        found = {}
        for each in versions:
            path = f"/apis/{each.group_version}"
            answer = await self.get(each, path)
            if answer.status != 200:
                raise ExtensionFailed(f"failed to download discovery for {path}: {answer.status}")
            read = partial(listed_resources, group_version=each.group_version)
            found[each.group_version] = await self._read(answer, read)
        known.resources, known.etag = found, ""

    async def _openapi(self, version: RemoteVersion) -> Mapping[str, str]:
        """Returns the URLs of the documents of OpenAPI v3, by name. Raises ExtensionFailed."""
        answer = await self.get(version, "/openapi/v3")
        if answer.status != 200:
            return {}
        try:
            return await self._read(answer, _openapi_urls)
        except NotDiscovery:
            return {}

    async def _read(self, answer: ExtensionResponse, read: Callable[[Any], T]) -> T:
        """Returns the content of a document. Raises NotDiscovery if it is not JSON, or has too many
        values.
        """

        def parse() -> T:
            return read(json_text.load(answer.body))

        try:
            return await self.offload.run_begun(size_class(len(answer.body)), parse)
        except ValueError as error:
            raise NotDiscovery(f"{answer.url}: {error}") from None


def _openapi_urls(document: Any) -> Mapping[str, str]:
    """Returns the URLs changed to lead back here, where requests for them are forwarded."""
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
