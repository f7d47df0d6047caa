"""Finds owners of this server's objects on extension servers, for the garbage collector.

Source: kubernetes, pkg/controller/garbagecollector, attemptToDeleteItem, whose client asks them through
kube-apiserver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from apiserver.controllers.garbage_collector.remote_owner_resolver import NamedOwner
from apiserver.controllers.garbage_collector.rules import OwnerState
from apiserver.endpoints.aggregation.extension_client import (
    ExtensionClient,
    ExtensionFailed,
    ExtensionRequest,
    ExtensionResponse,
)
from apiserver.endpoints.aggregation.remote_versions import RemoteVersion, RemoteVersions
from apiserver.load.offload import Offload
from apiserver.load.size_class import size_class
from apiserver.meta import names
from apiserver.meta.brand import Brand
from apiserver.meta.object_meta import FINALIZER_FOREGROUND
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.wire import json_text

log = logging.getLogger(__name__)

# The metadata of one object, or the whole of it from a server that knows no other form.
ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
ANSWER_WITHIN_S: Final = 10.0


class RemoteOwners:
    """The owners on extension servers: a `garbage_collector.remote_owner_resolver.OtherServers`."""

    def __init__(
        self, remote: RemoteVersions, client: ExtensionClient, offload: Offload, brand: Brand
    ) -> None:
        self._remote = remote
        self._client = client
        self._offload = offload
        as_metadata = f"application/json;as=PartialObjectMetadata;g={brand.meta_group};v=v1"
        self._headers = (("Accept", f"{as_metadata},application/json"),)

    def has_kind(self, api_version: str, kind: str) -> bool:
        return self._find(api_version, kind) is not None

    def call_on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._remote.call_on_change(callback)

    async def owner_state(self, owner: NamedOwner) -> OwnerState:
        found = self._find(owner.api_version, owner.kind)
        if found is None:
            return OwnerState.UNKNOWN
        version, resource = found
        is_namespaced = resource["scope"] == "Namespaced"
        segments = (owner.namespace, owner.name) if is_namespaced else (owner.name,)
        if not all(each and not names.path_segment(each) for each in segments):
            return OwnerState.UNKNOWN
        if not self._remote.is_available(version):
            return OwnerState.UNKNOWN
        folder = f"/namespaces/{quote(owner.namespace, safe='')}" if is_namespaced else ""
        name = quote(owner.name, safe="")
        path = f"/apis/{version.group_version}{folder}/{quote(resource['resource'], safe='')}/{name}"
        question = ExtensionRequest(
            path=path, headers=self._headers, bytes_max=ANSWER_BYTES_MAX, timeout_s=ANSWER_WITHIN_S
        )
        try:
            answer = await self._client.ask(version, question)
            size = size_class(len(answer.body))
            return await self._offload.run_begun(size, lambda: state_in(answer, owner))
        except (ExtensionFailed, ValueError) as error:
            log.info("cannot find out whether %s %s exists: %s", owner.kind, owner.name, error)
            return OwnerState.UNKNOWN

    def _find(self, api_version: str, kind: str) -> tuple[RemoteVersion, Document] | None:
        """Returns the version and the resource of a reference, if another server is known for it."""
        group, _, version = api_version.rpartition("/")
        group_version, table = GroupVersion(group, version), self._remote.current
        remote, discovered = table.versions.get(group_version), table.discovered.get(group_version)
        if remote is None or discovered is None:
            return None
        wanted = {"group": group, "version": version, "kind": kind}
        for each in discovered.resources:
            if each["responseKind"] == wanted and "get" in each["verbs"]:
                return remote, each
        return None


def _is_of_object(status: Document, name: str) -> bool:
    """Returns whether a Status means that an object does not exist, rather than its type."""
    details = status.get("details")
    named = details.get("name") if isinstance(details, dict) else None
    return (status.get("kind"), status.get("reason"), named) == ("Status", "NotFound", name)


def state_in(answer: ExtensionResponse, owner: NamedOwner) -> OwnerState:
    """Returns the state of an owner in a response. Raises ValueError if there is none."""
    document: Any = json_text.load(answer.body)
    if not isinstance(document, dict):
        raise ValueError(f"the response from {answer.url} is not a JSON object")
    if answer.status == 404 and _is_of_object(document, owner.name):
        return OwnerState.ABSENT
    meta = document.get("metadata")
    if answer.status != 200 or not isinstance(meta, dict) or not isinstance(meta.get("uid"), str):
        raise ValueError(f"bad status from {answer.url}: {answer.status}")
    if meta["uid"] != owner.uid:
        if not meta["uid"] or meta.get("name") != owner.name:
            raise ValueError(f"the response from {answer.url} is a different object")
        return OwnerState.ABSENT
    finalizers = meta.get("finalizers")
    is_waiting = isinstance(finalizers, list) and FINALIZER_FOREGROUND in finalizers
    return OwnerState.WAITING if is_waiting and "deletionTimestamp" in meta else OwnerState.SOLID
