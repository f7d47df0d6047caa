"""/openapi/v3, what is below it, and /openapi/v2.

Documents are asked for by their hash, which makes them immutable to caches. As in Kubernetes the hash is
also the ETag, of whatever form. Source: k8s.io/kube-openapi, pkg/handler3 and pkg/handler.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from email.utils import formatdate
from typing import Final
from urllib.parse import quote

import orjson
from aiohttp import hdrs

from apiserver.brand import Brand
from apiserver.endpoints.api_call import Call
from apiserver.endpoints.openapi import gnostic
from apiserver.endpoints.openapi.document_cache import CompressedDocument, DocumentCache
from apiserver.endpoints.openapi.documents import version_key
from apiserver.endpoints.openapi.operations import JSON, Operations
from apiserver.endpoints.responses import TEXT, accepts_gzip, send
from apiserver.registry.served_resource import ResourceTable
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.vocabulary import GroupVersion
from apiserver.wire.media_types import supported_media_types

PATCH_TYPES: Final = ("application/json-patch+json", "application/merge-patch+json")
# The names that forms are asked by, and the media types that they are sent as; the preferred one first. `@`
# is no character of media types, but clients use it.
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
    """Answers from the table of the moment.

    types: the media types of documents. patch_types: of patches. Clients choose by them.
    """

    def __init__(
        self,
        brand: Brand,
        schemas: BuiltinSchemas,
        table: Callable[[], ResourceTable],
        *,
        types: Sequence[str] = (),
        patch_types: Sequence[str] = PATCH_TYPES,
    ) -> None:
        self._table = table
        operations = Operations(brand, types or supported_media_types(brand), patch_types)
        self._publisher = DocumentCache(brand, schemas, operations)

    async def index(self, call: Call) -> None:
        """/openapi/v3"""
        digests = await self._publisher.digests(self._table())
        paths = {name: {"serverRelativeURL": _url(name, digest)} for name, digest in digests.items()}
        body = orjson.dumps({"paths": paths})
        etag = _quoted(hashlib.sha256(body).hexdigest().upper())
        if _has(call, etag):
            await send(call, 304, b"", TEXT, {"ETag": etag})
        else:
            # kube-apiserver leaves the type to guessing, and it is guessed as text.
            await send(call, 200, body, TEXT, {"ETag": etag})

    async def group_version(self, call: Call, key: str) -> bool:
        """/openapi/v3/{api/v1 or apis/group/version}; False if no such version is served."""
        table = self._table()
        group_version = _named(key, table.group_versions)
        if group_version is None:
            return False
        form = _negotiated(call, _V3_FORMS)
        if form is None:
            await _not_acceptable(call)
            return True
        published = await self._publisher.version(table, group_version, form)
        asked = call.query.get("hash", [""])[0]
        if asked and asked != published.digest:
            headers = {"Location": _url(key, published.digest), "Vary": _VARY}
            await send(call, 301, b"", form, headers)
            return True
        caching = {}
        if asked:
            expires = formatdate(int(time.time()) + _YEAR_S, usegmt=True)
            caching = {"Cache-Control": "public, immutable", "Expires": expires}
        await _send(call, published, form, caching)
        return True

    async def everything(self, call: Call) -> None:
        """/openapi/v2"""
        form = _negotiated(call, _V2_FORMS)
        if form is None:
            await _not_acceptable(call)
        else:
            await _send(call, await self._publisher.everything(self._table(), form), form)


async def _send(
    call: Call, published: CompressedDocument, form: str, caching: Mapping[str, str] | None = None
) -> None:
    etag = _quoted(published.digest)
    headers = {"ETag": etag, "Vary": _VARY, **(caching or {})}
    if _has(call, etag):
        await send(call, 304, b"", form, headers)
    elif accepts_gzip(call):
        await send(call, 200, published.compressed, form, {**headers, "Content-Encoding": "gzip"})
    else:
        await send(call, 200, await asyncio.to_thread(published.plain), form, headers)


async def _not_acceptable(call: Call) -> None:
    await send(call, 406, b"", "", {"Vary": _VARY})


def _named(key: str, versions: Iterable[GroupVersion]) -> GroupVersion | None:
    return next((each for each in versions if version_key(each) == key), None)


def _url(name: str, digest: str) -> str:
    return f"/openapi/v3/{quote(name)}?hash={digest}"


def _quoted(digest: str) -> str:
    return f'"{digest}"'


def _has(call: Call, etag: str) -> bool:
    """Whether the client has it already (RFC 9110, 13.1.2)."""
    asked = call.request.headers.get(hdrs.IF_NONE_MATCH, "")
    return asked == "*" or etag in (each.strip().removeprefix("W/") for each in asked.split(","))


def _negotiated(call: Call, forms: Mapping[str, str]) -> str | None:
    """The media type to send, of those that can be asked for."""
    accept = call.request.headers.get(hdrs.ACCEPT, "") or "*/*"
    for asked in _by_preference(accept):
        kind, _, subtype = asked.partition("/")
        for name, form in forms.items():
            if asked == name or (kind in ("*", "application") and subtype == "*"):
                return form
    return None


def _by_preference(header: str) -> list[str]:
    """The values of a header with weights, the best first, without refused ones (RFC 9110, 12.4.2)."""
    weighed = []
    for text in header.lower().split(","):
        name, *parameters = (piece.strip() for piece in text.split(";"))
        weight = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        try:
            weighed.append((float(weight), name))
        except ValueError:
            continue
    return [name for weight, name in sorted(weighed, key=lambda each: -each[0]) if weight > 0]
