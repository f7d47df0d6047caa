"""Discovery: /api, /apis, the documents of groups and versions, and aggregated discovery.

Rows D02, D03, D17, D18, D22, I19, S03. Documents are built from the table of resources on first use, and
cached encoded until the table changes. Other forms than JSON are transcoded from it. Source:
k8s.io/apiserver, pkg/endpoints/discovery and its aggregated/{wrapper,handler,etag}.go.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import orjson
from aiohttp import hdrs

from apiserver.brand import Brand
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.negotiation import Negotiator, Target
from apiserver.endpoints.representation import MetaV1Encoders, document_encoder
from apiserver.endpoints.representation.discovery_schema import KIND as AGGREGATED_KIND
from apiserver.endpoints.responses import is_pretty, json_text, send, send_document
from apiserver.errors import BadRequest, NotAcceptable
from apiserver.registry.offload import Offload
from apiserver.registry.served_resource import ResourceTable, ServedResource, ServedTable, Subresource
from apiserver.registry.size_class import size_class
from apiserver.vocabulary import Document, GroupVersion
from apiserver.wire.media_types import JSON, supported_media_types

# More than there are documents of built-in groups and versions, in all their forms.
CACHED_DOCUMENTS_MAX: Final = 256


class _DocumentKey(NamedTuple):
    """Identifies a document. of: the group or version that it is about; empty if there is one of a kind."""

    kind: str
    of: str = ""


class Discovery:
    """Serves the discovery documents of the current table of resources.

    meta: encodes documents in protobuf. has_cbor: whether its feature gate is on.
    """

    def __init__(
        self,
        brand: Brand,
        served: ServedTable,
        meta: MetaV1Encoders,
        *,
        has_cbor: bool = False,
    ) -> None:
        self._brand = brand
        self._served = served
        self._meta = meta
        # In Kubernetes the aggregated form has no CBOR, whatever the gate says.
        targets = [Target(AGGREGATED_KIND, brand.discovery_group, "v2")]
        self._negotiator = Negotiator(targets, supported_media_types(brand))
        self._plain = Negotiator((), supported_media_types(brand, has_cbor=has_cbor))
        self._target = f"g={brand.discovery_group};v=v2;as={AGGREGATED_KIND}"
        # Tables compare by identity; there are few at a time.
        self._aggregated = lru_cache(maxsize=4)(self._make_aggregated)
        # The part of each group, and what it was built from: a new table has few new groups.
        self._groups: dict[str, tuple[object, bytes]] = {}
        # By document and media type, for one table. The oldest are evicted first.
        self._cache: dict[tuple[_DocumentKey, str], bytes] = {}
        self._cached_table: ResourceTable | None = None

    async def core(self, call: ApiCall) -> None:
        """Serve /api. Raises NotAcceptable, BadRequest."""
        if (media_type := self._aggregated_type(call)) is not None:
            await self._send_aggregated(call, "core", media_type)
            return
        media_type = self._plain_type(call)
        versions = [gv.version for gv in self._served.current.groups.get("", ())]
        host = call.request.headers.get(hdrs.HOST, "")
        if not host.isascii():
            raise BadRequest("the Host header is not valid")
        document: Document = {
            "kind": "APIVersions",
            "versions": versions,
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
        }
        if media_type == JSON:
            await send_document(call, document, headers=_VARY)
        else:  # not cached: small, and different for each host
            body = document_encoder("APIVersions", media_type, self._meta)(document)
            await send(call, 200, body, media_type, _VARY)

    async def groups(self, call: ApiCall) -> None:
        """Serve /apis. Raises NotAcceptable."""
        if (media_type := self._aggregated_type(call)) is not None:
            await self._send_aggregated(call, "named", media_type)
        else:
            await self._send(call, _DocumentKey("APIGroupList"), _group_list, _VARY)

    async def group(self, call: ApiCall, name: str) -> None:
        """Serve /apis/{group}; the group is known to be served. Raises NotAcceptable."""
        await self._send(call, _DocumentKey("APIGroup", name), lambda table: _group_document(table, name))

    async def version(self, call: ApiCall, group_version: GroupVersion) -> None:
        """Serve /api/v1 or /apis/{group}/{version}; it is known to be served. Raises NotAcceptable."""
        which = _DocumentKey("APIResourceList", str(group_version))
        await self._send(call, which, lambda table: _resource_list(table, group_version))

    # ---- forms

    def _aggregated_type(self, call: ApiCall) -> str | None:
        """Returns the media type for aggregated discovery, or None if the client does not ask for that."""
        try:
            form = self._negotiator.form_for(call.request.headers.get(hdrs.ACCEPT, ""))
        except NotAcceptable:
            return None  # The unaggregated document will be refused, too, and names the types there are.
        return form.media_type if form.kind == AGGREGATED_KIND else None

    def _plain_type(self, call: ApiCall) -> str:
        """Raises NotAcceptable."""
        return self._plain.form_for(call.request.headers.get(hdrs.ACCEPT, "")).media_type

    async def _send(
        self,
        call: ApiCall,
        which: _DocumentKey,
        make: Callable[[ResourceTable], Document],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Raises NotAcceptable."""
        media_type = self._plain_type(call)
        table = self._served.current
        cache = self._cache_for(table)
        text = cache.get((which, JSON))
        if text is None:
            text = cache[which, JSON] = json_text(make(table))
            _evict_oldest(cache)
        if media_type == JSON and is_pretty(call):
            await send_document(call, orjson.loads(text), headers=headers)
        else:
            body = await self._in_form(call.offload, media_type, which, text)
            await send(call, 200, body, media_type, headers, is_shared=True)

    async def _send_aggregated(self, call: ApiCall, which: str, media_type: str) -> None:
        """Send an aggregated document. All forms have the ETag of the JSON."""
        text, etag = self._aggregated(self._served.current, which)
        content_type = f"{media_type};{self._target}"
        # Clients that cache it ask whether it has changed.
        headers = {**_VARY, "ETag": etag, hdrs.CACHE_CONTROL: "public"}
        if call.request.headers.get(hdrs.IF_NONE_MATCH) == etag:
            await send(call, 304, b"", content_type, headers)
        else:
            body = await self._in_form(call.offload, media_type, _DocumentKey(AGGREGATED_KIND, which), text)
            await send(call, 200, body, content_type, headers, is_shared=True)

    async def _in_form(self, offload: Offload, media_type: str, which: _DocumentKey, text: bytes) -> bytes:
        """Transcodes a document of the current table from JSON, or finds it in the cache."""
        if media_type == JSON:
            return text
        cache = self._cache_for(self._served.current)
        body = cache.get((which, media_type))
        if body is None:
            write = document_encoder(which.kind, media_type, self._meta)

            def encode() -> bytes:
                if (encoded := cache.get((which, media_type))) is not None:  # by another, meanwhile
                    return encoded
                return cache.setdefault((which, media_type), write(orjson.loads(text)))

            body = await offload.run(size_class(len(text)), encode)
            _evict_oldest(cache)
        return body

    def _cache_for(self, table: ResourceTable) -> dict[tuple[_DocumentKey, str], bytes]:
        """Returns the cache of a table. Each has its own: encoding for the last one may go on."""
        if table is not self._cached_table:
            self._cached_table, self._cache = table, {}
        return self._cache

    # ---- aggregated discovery

    def _make_aggregated(self, table: ResourceTable, which: str) -> tuple[bytes, str]:
        """Returns the document of the core group or of the named groups, and its ETag."""
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


def _evict_oldest(cache: dict[tuple[_DocumentKey, str], bytes]) -> None:
    """Remove the oldest entries beyond the bound."""
    if len(cache) > CACHED_DOCUMENTS_MAX:
        for key in list(cache)[:-CACHED_DOCUMENTS_MAX]:
            cache.pop(key, None)


# ---- documents


def _group_list(table: ResourceTable) -> Document:
    groups = [_group(name, versions) for name, versions in table.groups.items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group_document(table: ResourceTable, name: str) -> Document:
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, table.groups[name])}


def _resource_list(table: ResourceTable, group_version: GroupVersion) -> Document:
    resources: list[Document] = []
    for resource in table.group_versions[group_version]:
        resources.append(_resource(resource))
        resources += [_subresource(resource, sub) for sub in resource.subresources.values()]
    # As in Kubernetes, the list of the core group has no apiVersion.
    kind = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group_version.group else {})}
    return {**kind, "groupVersion": str(group_version), "resources": resources}


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
    """Returns a hash that changes with the version in which objects are stored.

    Source: k8s.io/apiserver, pkg/endpoints/discovery.
    """
    group = resource.stored_group_resource.group
    text = f"{group}/{resource.storage_version}/{resource.codec.stored_kind}"
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
