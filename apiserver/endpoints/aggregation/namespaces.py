"""Deletes objects on extension servers in namespaces that are being deleted.

As in Kubernetes a namespace remains until all its objects are deleted, including those of unreachable
servers; its status names the versions that keep it.
Source: kubernetes, pkg/controller/namespace/deletion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from apiserver.controllers.namespace_conditions import RemainingContent
from apiserver.endpoints.aggregation.extension_client import (
    ExtensionClient,
    ExtensionFailed,
    ExtensionRequest,
    ExtensionResponse,
)
from apiserver.endpoints.aggregation.remote_versions import RemoteVersion, RemoteVersions
from apiserver.load.offload import Offload
from apiserver.load.size_class import size_class
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.wire import json_text

# How many objects are listed to count the remaining ones, and deleted one by one if a collection cannot be.
LISTED_MAX: Final = 100
LIST_BYTES_MAX: Final = 8 * 1024 * 1024
# A collection may be large.
ANSWER_WITHIN_S: Final = 30.0
_ABSENT: Final = (404, 405)


class RemoteNamespaces:
    """The objects in namespaces on extension servers: a `controllers.namespaces.OtherServers`."""

    def __init__(self, remote: RemoteVersions, client: ExtensionClient, offload: Offload) -> None:
        self._remote = remote
        self._client = client
        self._offload = offload

    async def empty(self, namespace: str, remaining: RemainingContent) -> None:
        table = self._remote.current
        for group_version, version in table.versions.items():
            discovered = table.discovered.get(group_version)
            if discovered is None or not discovered.is_current:
                remaining.undiscovered.append(str(group_version))
                continue
            try:
                for resource in discovered.resources:
                    if resource["scope"] == "Namespaced" and "list" in resource["verbs"]:
                        await self._empty_of(version, resource, namespace, remaining)
            except ExtensionFailed as error:
                # The next resource of the same server would have to be waited for as long.
                remaining.fail(str(error))

    async def _empty_of(
        self, version: RemoteVersion, resource: Document, namespace: str, remaining: RemainingContent
    ) -> None:
        """Delete the objects of a resource in a namespace."""
        name = GroupResource(version.group_version.group, resource["resource"])
        path = f"/apis/{version.group_version}/namespaces/{namespace}/{quote(name.resource)}"
        if "deletecollection" in resource["verbs"]:
            await self._delete(version, path)
        elif "delete" in resource["verbs"]:
            for meta in await self._list(version, path):
                await self._delete(version, f"{path}/{quote(str(meta.get('name')), safe='')}")
        else:
            return
        for meta in await self._list(version, path):
            finalizers = meta.get("finalizers")
            texts = finalizers if isinstance(finalizers, list) else ()
            remaining.add_elsewhere(name, [each for each in texts if isinstance(each, str)])

    async def _delete(self, version: RemoteVersion, path: str) -> None:
        """Delete an object."""
        question = ExtensionRequest(method="DELETE", path=path, bytes_max=0, timeout_s=ANSWER_WITHIN_S)
        answer = await self._client.ask(version, question)
        if answer.status >= 300 and answer.status not in _ABSENT:
            raise ExtensionFailed(f"bad status from {answer.url}: {answer.status}")

    async def _list(self, version: RemoteVersion, path: str) -> list[Document]:
        """Returns the metadata of some objects. Raises ExtensionFailed."""
        answer = await self._client.ask(
            version,
            ExtensionRequest(
                path=f"{path}?limit={LISTED_MAX}",
                headers=(("Accept", "application/json"),),
                bytes_max=LIST_BYTES_MAX,
                timeout_s=ANSWER_WITHIN_S,
            ),
        )
        if answer.status in _ABSENT:
            return []
        if answer.status != 200:
            raise ExtensionFailed(f"bad status from {answer.url}: {answer.status}")
        try:
            size = size_class(len(answer.body))
            return await self._offload.run_begun(size, lambda: list(_metadata(answer)))
        except ValueError as error:
            raise ExtensionFailed(f"{answer.url}: {error}") from None


def _metadata(answer: ExtensionResponse) -> Iterator[Document]:
    """Returns the metadata in a response."""
    document: Any = json_text.load(answer.body)
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise ValueError("the response is not a list")
    for each in items[:LISTED_MAX]:
        meta = each.get("metadata") if isinstance(each, dict) else None
        yield meta if isinstance(meta, dict) else {}
