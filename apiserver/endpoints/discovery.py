"""What is served, told to clients: /api, /apis, groups, versions, and all of it at once.

Rows I19, S03. Documents are made from the table of resources when they are first asked for, and kept as
bytes until the table changes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import orjson
from aiohttp import hdrs

from apiserver.brand import Brand
from apiserver.endpoints.call import Call
from apiserver.endpoints.negotiation import Negotiator, Target
from apiserver.endpoints.responses import send, send_document
from apiserver.errors import BadRequest
from apiserver.registry.served_resource import ResourceTable, ServedResource, Subresource
from apiserver.vocabulary import Document, GroupVersion

AGGREGATED_KIND: Final = "APIGroupDiscoveryList"


class Discovery:
    """Answers discovery requests from the table of the moment."""

    def __init__(self, brand: Brand, table: Callable[[], ResourceTable]) -> None:
        self._brand = brand
        self._table = table
        targets = [Target(AGGREGATED_KIND, brand.discovery_group, "v2")]
        self._negotiator = Negotiator(targets)
        self._plain = Negotiator(())
        self._aggregated_type = f"application/json;g={brand.discovery_group};v=v2;as={AGGREGATED_KIND}"
        # Tables compare by identity; there are few at a time.
        self._aggregated = lru_cache(maxsize=4)(self._make_aggregated)
        # The part of each group, and what it was made of: a new table has few new groups.
        self._groups: dict[str, tuple[object, bytes]] = {}

    async def core(self, call: Call) -> None:
        """/api"""
        if self._wants_aggregated(call):
            await self._send_aggregated(call, "core")
            return
        versions = [gv.version for gv in self._table().groups.get("", ())]
        host = call.request.headers.get(hdrs.HOST, "")
        if not host.isascii():
            raise BadRequest("the Host header is not valid")
        await send_document(
            call,
            {
                "kind": "APIVersions",
                "versions": versions,
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
            },
            headers=_VARY,
        )

    async def groups(self, call: Call) -> None:
        """/apis"""
        if self._wants_aggregated(call):
            await self._send_aggregated(call, "named")
            return
        table = self._table()
        groups = [_group(name, versions) for name, versions in table.groups.items() if name]
        await send_document(
            call, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}, headers=_VARY
        )

    async def group(self, call: Call, name: str) -> None:
        """/apis/{group}; the group is known to be served. Raises NotAcceptable."""
        self._plain.form_for(call.request.headers.get("Accept", ""))
        document = {"kind": "APIGroup", "apiVersion": "v1", **_group(name, self._table().groups[name])}
        await send_document(call, document)

    async def version(self, call: Call, group_version: GroupVersion) -> None:
        """/api/v1 and /apis/{group}/{version}; the version is known to be served. Raises NotAcceptable."""
        self._plain.form_for(call.request.headers.get("Accept", ""))
        resources: list[Document] = []
        for resource in self._table().group_versions[group_version]:
            resources.append(_resource(resource))
            resources += [_subresource(resource, sub) for sub in resource.subresources.values()]
        # As old as the core group is the habit to say no version there.
        kind = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group_version.group else {})}
        await send_document(call, {**kind, "groupVersion": str(group_version), "resources": resources})

    def _wants_aggregated(self, call: Call) -> bool:
        """Raises NotAcceptable."""
        form = self._negotiator.form_for(call.request.headers.get("Accept", ""))
        return form.kind == AGGREGATED_KIND

    async def _send_aggregated(self, call: Call, which: str) -> None:
        body, etag = self._aggregated(self._table(), which)
        headers = {**_VARY, "ETag": etag}
        if call.request.headers.get("If-None-Match") == etag:
            await send(call, 304, b"", self._aggregated_type, headers)
        else:
            await send(call, 200, body, self._aggregated_type, headers)

    def _make_aggregated(self, table: ResourceTable, which: str) -> tuple[bytes, str]:
        """The document of the core group or of the named ones, and its ETag."""
        for gone in self._groups.keys() - table.groups.keys():
            del self._groups[gone]
        items = [
            self._aggregated_group(table, name) for name in table.groups if bool(name) is (which == "named")
        ]
        about = {
            "kind": AGGREGATED_KIND,
            "apiVersion": f"{self._brand.discovery_group}/v2",
            "metadata": {},
        }
        body = b'%b,"items":[%b]}\n' % (orjson.dumps(about)[:-1], b",".join(items))
        return body, f'"{hashlib.sha256(body).hexdigest().upper()}"'

    def _aggregated_group(self, table: ResourceTable, name: str) -> bytes:
        served = tuple((gv, table.group_versions[gv]) for gv in table.groups[name])
        known = self._groups.get(name)
        if known is not None and known[0] == served:
            return known[1]
        group = orjson.dumps(
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {
                        "version": gv.version,
                        "resources": [_aggregated_resource(r) for r in resources],
                        "freshness": "Current",
                    }
                    for gv, resources in served
                ],
            }
        )
        self._groups[name] = served, group
        return group


_VARY: Final = {"Vary": "Accept"}


def _group(name: str, versions: tuple[GroupVersion, ...]) -> Document:
    listed = [{"groupVersion": str(gv), "version": gv.version} for gv in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resource(resource: ServedResource) -> Document:
    document: Document = {
        "name": resource.resource,
        "singularName": resource.singular,
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        document["shortNames"] = list(resource.short_names)
    if resource.categories:
        document["categories"] = list(resource.categories)
    if "watch" in resource.verbs:  # what is not stored cannot be watched
        document["storageVersionHash"] = _storage_version_hash(resource)
    return document


def _subresource(resource: ServedResource, subresource: Subresource) -> Document:
    document: Document = {
        "name": f"{resource.resource}/{subresource.name}",
        "singularName": "",
        "namespaced": resource.is_namespaced,
        "kind": subresource.kind or resource.kind,
        "verbs": list(subresource.verbs),
    }
    if subresource.group_version is not None:
        document["group"], document["version"] = subresource.group_version
    return document


def _storage_version_hash(resource: ServedResource) -> str:
    """Changes when objects are stored in another version. Source: apiserver pkg/endpoints/discovery."""
    stored = resource.conversion
    group = stored.group_resource.group if stored else resource.group_version.group
    text = f"{group}/{resource.storage_version}/{stored.kind if stored else resource.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _aggregated_resource(resource: ServedResource) -> Document:
    group, version = resource.group_version
    document: Document = {
        "resource": resource.resource,
        "responseKind": {"group": group, "version": version, "kind": resource.kind},
        "scope": "Namespaced" if resource.is_namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        document["shortNames"] = list(resource.short_names)
    if resource.categories:
        document["categories"] = list(resource.categories)
    if resource.subresources:
        document["subresources"] = [
            _aggregated_subresource(resource, sub) for sub in resource.subresources.values()
        ]
    return document


def _aggregated_subresource(resource: ServedResource, subresource: Subresource) -> Document:
    group, version = subresource.group_version or resource.group_version
    return {
        "subresource": subresource.name,
        "responseKind": {"group": group, "version": version, "kind": subresource.kind or resource.kind},
        "verbs": list(subresource.verbs),
    }
