"""Serves /openapi/v3, the documents below it, and /openapi/v2.

URLs of documents contain a hash, so that caches may keep them forever. As in Kubernetes the hash is also the
ETag, of every form. Source: k8s.io/kube-openapi, pkg/handler3 and pkg/handler.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from email.utils import formatdate
from typing import Final
from urllib.parse import quote

import orjson
from aiohttp import hdrs

from apiserver.endpoints.aggregation.remote_versions import RemoteVersions
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.compression import CONTENT_ENCODING, accepts_gzip
from apiserver.endpoints.openapi import gnostic
from apiserver.endpoints.openapi.document_cache import CompressedDocument, DocumentCache, PlainDocuments
from apiserver.endpoints.openapi.documents import version_key
from apiserver.endpoints.responses import TEXT, send
from apiserver.meta.vocabulary import GroupVersion
from apiserver.registry.served_resource import ServedTable
from apiserver.wire.media_types import JSON

# The names by which clients ask for a form, and the media type that it is sent as; the preferred one first. A
# media type cannot contain `@`, but clients use it.
_V2_FORMS: Final = {
    JSON: JSON,
    gnostic.V2_TYPE: gnostic.V2_TYPE,
    gnostic.V2_TYPE.replace("v2.", "v2@"): gnostic.V2_TYPE,
}
_V3_FORMS: Final = {
    JSON: JSON,
    gnostic.V3_TYPE: gnostic.V3_TYPE,
    gnostic.V3_TYPE.replace("v3.", "v3@"): gnostic.V3_TYPE,
}
_YEAR_S: Final = 365 * 24 * 3600
_VARY: Final = "Accept, Accept-Encoding"


class OpenApi:
    """Serves the OpenAPI documents of the current table of resources, and links those of extension
    servers.
    """

    def __init__(self, documents: DocumentCache, served: ServedTable, remote: RemoteVersions) -> None:
        self._served = served
        self._remote = remote
        self._documents = documents
        self._plain = PlainDocuments()

    async def index(self, call: ApiCall) -> None:
        """Serve /openapi/v3."""
        digests = await self._documents.digests(self._served.current)
        urls = {name: _url(name, digest) for name, digest in digests.items()}
        for group_version, found in self._remote.current.discovered.items():
            if found.openapi_url:
                urls.setdefault(version_key(group_version), found.openapi_url)
        paths = {name: {"serverRelativeURL": url} for name, url in urls.items()}
        body = orjson.dumps({"paths": paths})
        etag = _quoted(hashlib.sha256(body).hexdigest().upper())
        if _is_cached_by_client(call, etag):
            await send(call, 304, b"", TEXT, {"ETag": etag})
        else:
            # kube-apiserver sets no type; Go's HTTP server detects it as text.
            await send(call, 200, body, TEXT, {"ETag": etag})

    async def v3(self, call: ApiCall, key: str) -> bool:
        """Serve /openapi/v3/{key}, as `apis/apps/v1` or `version`; returns False if there is no such
        document.
        """
        table = self._served.current
        group_version = _find_version(key, table.group_versions)
        form = _negotiated(call, _V3_FORMS)
        if group_version is not None:
            document = await self._documents.v3(table, group_version, form or JSON)
        else:
            page = await self._documents.v3_page(table, key, form or JSON)
            if page is None:
                return False
            document = page
        if form is None:
            await _not_acceptable(call)
            return True
        requested_hash = call.query.get("hash", [""])[0]
        if requested_hash and requested_hash != document.digest:
            headers = {"Location": _url(key, document.digest), "Vary": _VARY}
            await send(call, 301, b"", form, headers)
            return True
        caching = {}
        if requested_hash:
            expires = formatdate(int(time.time()) + _YEAR_S, usegmt=True)
            caching = {"Cache-Control": "public, immutable", "Expires": expires}
        await _send(call, document, self._plain, form, caching)
        return True

    async def v2(self, call: ApiCall) -> None:
        """Serve /openapi/v2."""
        form = _negotiated(call, _V2_FORMS)
        if form is None:
            await _not_acceptable(call)
        else:
            table, remote = self._served.current, self._remote.current
            others = sorted(remote.openapi_v2.items(), key=lambda each: remote.versions[each[0]].rank)
            parts = tuple(part for version, part in others if version not in table.group_versions)
            document = await self._documents.v2(table, form, parts)
            await _send(call, document, self._plain, form)


async def _send(
    call: ApiCall,
    document: CompressedDocument,
    plain: PlainDocuments,
    form: str,
    caching: Mapping[str, str] | None = None,
) -> None:
    etag = _quoted(document.digest)
    headers = {"ETag": etag, "Vary": _VARY, **(caching or {})}
    if _is_cached_by_client(call, etag):
        await send(call, 304, b"", form, headers)
    elif accepts_gzip(call.request.headers.get(hdrs.ACCEPT_ENCODING)):
        await send(call, 200, document.compressed, form, {**headers, **CONTENT_ENCODING}, is_shared=True)
    else:
        text = await plain.of(document)
        await send(call, 200, text.data, form, headers, is_shared=True)


async def _not_acceptable(call: ApiCall) -> None:
    await send(call, 406, b"", "", {"Vary": _VARY})


def _find_version(key: str, versions: Iterable[GroupVersion]) -> GroupVersion | None:
    return next((each for each in versions if version_key(each) == key), None)


def _url(name: str, digest: str) -> str:
    return f"/openapi/v3/{quote(name)}?hash={digest}"


def _quoted(digest: str) -> str:
    return f'"{digest}"'


def _is_cached_by_client(call: ApiCall, etag: str) -> bool:
    """Whether the client has the document already (RFC 9110, 13.1.2)."""
    asked = call.request.headers.get(hdrs.IF_NONE_MATCH, "")
    return asked == "*" or etag in (each.strip().removeprefix("W/") for each in asked.split(","))


def _negotiated(call: ApiCall, forms: Mapping[str, str]) -> str | None:
    """Returns the media type to send, or None if the client accepts none of `forms`."""
    accept = call.request.headers.get(hdrs.ACCEPT, "") or "*/*"
    for asked in _by_preference(accept):
        kind, _, subtype = asked.partition("/")
        for name, form in forms.items():
            if asked == name or (kind in ("*", "application") and subtype == "*"):
                return form
    return None


def _by_preference(header: str) -> list[str]:
    """Returns the values of a weighted header, the best first, without refused ones (RFC 9110, 12.4.2)."""
    weighed = []
    for text in header.lower().split(","):
        name, *parameters = (piece.strip() for piece in text.split(";"))
        weight = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        try:
            weighed.append((float(weight), name))
        except ValueError:
            continue
    return [name for weight, name in sorted(weighed, key=lambda each: -each[0]) if weight > 0]
