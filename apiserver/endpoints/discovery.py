"""Serves discovery: /api, /apis, the documents of groups and versions, and aggregated discovery.

Rows D02, D03, D17, D18, D22, I19, S03. Documents are built on first use, from the table of resources and the
known versions of other servers, and cached encoded until one of the two changes. Other forms than JSON are
transcoded from it. Source: k8s.io/apiserver, pkg/endpoints/discovery and its
aggregated/{wrapper,handler,etag}.go; k8s.io/kube-aggregator, pkg/apiserver/handler_apis.go.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import orjson
from aiohttp import hdrs

from apiserver.catalogue.apiregistration.local_api_services import CUSTOM, builtin_priority
from apiserver.endpoints.aggregation.remote_versions import DiscoveredVersion, RemoteTable, RemoteVersions
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.negotiation import Negotiator, TargetKind
from apiserver.endpoints.representation import MetaV1Encoders, document_encoder
from apiserver.endpoints.representation.discovery_schema import KIND as AGGREGATED_KIND
from apiserver.endpoints.responses import json_text, send, send_document
from apiserver.load.offload import Offload
from apiserver.load.size_class import size_class
from apiserver.meta.brand import Brand
from apiserver.meta.errors import BadRequest, NotAcceptable
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.registry.served_resource import (
    ResourceTable,
    ServedResource,
    ServedTable,
    Subresource,
    cache_keys,
    version_priority,
)
from apiserver.wire.media_types import JSON, supported_media_types

# More than there are documents of built-in groups and versions, in all their forms.
CACHED_DOCUMENTS_MAX: Final = 256


class _DocumentKey(NamedTuple):
    """Identifies a document. of: the group or version that it is about; empty for the documents of all."""

    kind: str
    of: str = ""


class _ServedVersions(NamedTuple):
    """The tables that documents are built from, compared by identity."""

    own: ResourceTable
    remote: RemoteTable


@dataclass(slots=True)
class _BuiltDocuments:
    """The documents built from one table of remote versions and one of this server's.

    groups: those of both tables. documents: by media type; the oldest are evicted first. aggregated: with
        ETags.
    """

    remote: RemoteTable
    groups: Mapping[str, tuple[GroupVersion, ...]]
    documents: dict[tuple[_DocumentKey, str], bytes] = field(default_factory=dict)
    aggregated: dict[str, tuple[bytes, str]] = field(default_factory=dict)


@dataclass(slots=True)
class _LatestDocuments:
    """The documents built last from a table of this server's resources."""

    built: _BuiltDocuments | None = None


class Discovery:
    """Serves the discovery documents of the current table of resources, and of other servers' versions.

    meta: encodes documents in protobuf. has_cbor: whether its feature gate is on.
    """

    def __init__(
        self,
        brand: Brand,
        served: ServedTable,
        meta: MetaV1Encoders,
        remote: RemoteVersions | None = None,
        *,
        has_cbor: bool = False,
    ) -> None:
        self._brand = brand
        self._served = served
        self._remote = remote or RemoteVersions()
        self._meta = meta
        # In Kubernetes the aggregated form has no CBOR, whatever the gate says.
        targets = [TargetKind(AGGREGATED_KIND, brand.discovery_group, "v2")]
        self._negotiator = Negotiator(targets, supported_media_types(brand))
        plain = supported_media_types(brand, has_cbor=has_cbor)
        self._routed = Negotiator((), plain)
        # What lies above the versions of groups, and custom resources, are not served by Kubernetes' router.
        self._unrouted = Negotiator((), plain, is_routed=False)
        self._target = f"g={brand.discovery_group};v=v2;as={AGGREGATED_KIND}"
        # The part of each group, and what it was built from: a new table has few new groups.
        self._groups: dict[str, tuple[object, bytes]] = {}

    async def core(self, call: ApiCall) -> None:
        """Serve /api. Raises NotAcceptable, BadRequest."""
        if (media_type := self._aggregated_type(call)) is not None:
            await self._send_aggregated(call, "core", media_type)
            return
        media_type = _media_type(call, self._routed)
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
            which = _DocumentKey("APIGroupList")
            await self._send(call, self._unrouted, which, lambda: _group_list(self.groups_now()), _VARY)

    async def group(self, call: ApiCall, name: str) -> None:
        """Serve /apis/{group}, for a group that is known to be served. Raises NotAcceptable."""
        which = _DocumentKey("APIGroup", name)
        await self._send(call, self._unrouted, which, lambda: _group_document(self.groups_now(), name))

    async def version(self, call: ApiCall, group_version: GroupVersion) -> None:
        """Serve /api/v1 or /apis/{group}/{version}, for a version that is known to be served here.

        Raises NotAcceptable.
        """
        which, served = _DocumentKey("APIResourceList", str(group_version)), self._served.current
        negotiator = self._unrouted if served.is_custom(group_version.group) else self._routed
        await self._send(call, negotiator, which, lambda: _resource_list(served, group_version))

    def groups_now(self) -> Mapping[str, tuple[GroupVersion, ...]]:
        """Returns the versions of each group, on this and other servers, in the order of their priorities."""
        return self._built(self._now()).groups

    def _now(self) -> _ServedVersions:
        return _ServedVersions(self._served.current, self._remote.current)

    def _merge(self, now: _ServedVersions) -> Mapping[str, tuple[GroupVersion, ...]]:
        """Merge the groups of both tables; versions served here win over APIServices for the same version."""
        own = now.own.groups
        others = {
            gv: version.priority
            for gv, version in now.remote.versions.items()
            if gv.group and gv not in now.own.group_versions
        }
        if not others:
            return own
        priorities = dict(others)
        for group, versions in own.items():
            is_custom = now.own.is_custom(group)
            for gv in versions:
                priorities[gv] = CUSTOM if is_custom else builtin_priority(self._brand, gv)
        merged = dict(own)
        for group in {gv.group for gv in others}:
            together = (*own.get(group, ()), *(gv for gv in others if gv.group == group))
            by_name = sorted(together, key=lambda gv: version_priority(gv.version), reverse=True)
            merged[group] = tuple(sorted(by_name, key=lambda gv: -priorities[gv].version))
        highest = {group: max(priorities[gv].group for gv in versions) for group, versions in merged.items()}
        return {group: merged[group] for group in sorted(merged, key=lambda name: (-highest[name], name))}

    # ---- forms

    def _aggregated_type(self, call: ApiCall) -> str | None:
        """Returns the media type for aggregated discovery, or None if the client does not ask for that."""
        try:
            form = self._negotiator.form_for(call.request.headers.get(hdrs.ACCEPT, ""))
        except NotAcceptable:
            return None  # The unaggregated document will be refused, too, and names the types there are.
        return form.media_type if form.kind == AGGREGATED_KIND else None

    async def _send(
        self,
        call: ApiCall,
        negotiator: Negotiator,
        which: _DocumentKey,
        make: Callable[[], Document],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a document in the form that the client accepts."""
        media_type = _media_type(call, negotiator)
        cache = self._built(self._now()).documents
        text = cache.get((which, JSON))
        if text is None:
            text = cache[which, JSON] = json_text(make())
            _evict_oldest(cache)
        if media_type == JSON and call.is_pretty:
            await send_document(call, orjson.loads(text), headers=headers)
        else:
            body = await self._in_form(call.offload, media_type, which, text)
            await send(call, 200, body, media_type, headers, is_shared=True)

    async def _send_aggregated(self, call: ApiCall, which: str, media_type: str) -> None:
        """Send an aggregated document; all forms have the ETag of the JSON."""
        text, etag = self._aggregated(self._now(), which)
        content_type = f"{media_type};{self._target}"
        # Clients that cache it ask whether it has changed.
        headers = {**_VARY, "ETag": etag, hdrs.CACHE_CONTROL: "public"}
        if call.request.headers.get(hdrs.IF_NONE_MATCH) == etag:
            await send(call, 304, b"", content_type, headers)
        else:
            body = await self._in_form(call.offload, media_type, _DocumentKey(AGGREGATED_KIND, which), text)
            await send(call, 200, body, content_type, headers, is_shared=True)

    async def _in_form(self, offload: Offload, media_type: str, which: _DocumentKey, text: bytes) -> bytes:
        """Transcodes a document of the current state from JSON, or finds it in the cache."""
        if media_type == JSON:
            return text
        cache = self._built(self._now()).documents
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

    def _built(self, now: _ServedVersions) -> _BuiltDocuments:
        """Returns the documents built from a state. Each state has its own documents: encoding for the last
        one may still be under way.
        """
        latest = now.own.derived(self, lambda _: _LatestDocuments())
        built = latest.built
        if built is None or built.remote is not now.remote:
            built = latest.built = _BuiltDocuments(now.remote, self._merge(now))
        return built

    # ---- aggregated discovery

    def _aggregated(self, now: _ServedVersions, which: str) -> tuple[bytes, str]:
        """Returns the document of the core group or of the named groups, and its ETag."""
        built = self._built(now)
        if which not in built.aggregated:
            built.aggregated[which] = self._make_aggregated(now, built.groups, which)
        return built.aggregated[which]

    def _make_aggregated(
        self, now: _ServedVersions, groups: Mapping[str, tuple[GroupVersion, ...]], which: str
    ) -> tuple[bytes, str]:
        for gone in self._groups.keys() - groups.keys():
            del self._groups[gone]
        items = [
            self._aggregated_group(now, name, versions)
            for name, versions in groups.items()
            if bool(name) is (which == "named")
        ]
        about = {"kind": AGGREGATED_KIND, "apiVersion": f"{self._brand.discovery_group}/v2", "metadata": {}}
        body = b'%b,"items":[%b]}\n' % (orjson.dumps(about)[:-1], b",".join(filter(None, items)))
        return body, f'"{hashlib.sha256(body).hexdigest().upper()}"'

    def _aggregated_group(self, now: _ServedVersions, name: str, versions: Sequence[GroupVersion]) -> bytes:
        """Returns the part of a group; empty while nothing is known about it on other servers."""
        own, discovered = now.own.group_versions, now.remote.discovered
        known_versions = [gv for gv in versions if gv in own or gv in discovered]
        if not known_versions:
            return b""
        served = tuple((gv, own[gv] if gv in own else discovered[gv]) for gv in known_versions)
        source = tuple((gv, cache_keys(own[gv]) if gv in own else discovered[gv]) for gv in known_versions)
        known = self._groups.get(name)
        if known is not None and known[0] == source:
            return known[1]
        group = orjson.dumps(
            {
                "metadata": {"name": name} if name else {},
                "versions": [_aggregated_version(gv, each) for gv, each in served],
            }
        )
        self._groups[name] = source, group
        return group


_VARY: Final = {"Vary": "Accept"}


def _media_type(call: ApiCall, negotiator: Negotiator) -> str:
    """Returns the media type for a document."""
    return negotiator.form_for(call.request.headers.get(hdrs.ACCEPT, "")).media_type


def _evict_oldest(cache: dict[tuple[_DocumentKey, str], bytes]) -> None:
    """Remove the oldest entries beyond the bound."""
    if len(cache) > CACHED_DOCUMENTS_MAX:
        for key in list(cache)[:-CACHED_DOCUMENTS_MAX]:
            cache.pop(key, None)


# ---- documents


def _group_list(groups: Mapping[str, tuple[GroupVersion, ...]]) -> Document:
    listed = [_group(name, versions) for name, versions in groups.items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def _group_document(groups: Mapping[str, tuple[GroupVersion, ...]], name: str) -> Document:
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, groups[name])}


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
    document |= _other_names(resource)
    if "watch" in resource.verbs and not resource.is_virtual:  # Other kinds that can be watched are stored.
        document["storageVersionHash"] = _storage_version_hash(resource)
    return document


def _other_names(resource: ServedResource) -> Document:
    """Returns the fields of a resource's short names and categories, if there are any."""
    names = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {field: texts for field, texts in names.items() if texts}


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


def _aggregated_version(
    group_version: GroupVersion, served: tuple[ServedResource, ...] | DiscoveredVersion
) -> Document:
    if isinstance(served, DiscoveredVersion):
        resources, is_current = list(served.resources), served.is_current
    else:
        resources, is_current = [_aggregated_resource(each) for each in served], True
    freshness = "Current" if is_current else "Stale"
    return {"version": group_version.version, "resources": resources, "freshness": freshness}


def _aggregated_resource(resource: ServedResource) -> Document:
    group, version = resource.group_version
    document: Document = {
        "resource": resource.resource,
        "responseKind": {"group": group, "version": version, "kind": resource.kind},
        "scope": "Namespaced" if resource.is_namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    document |= _other_names(resource)
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
