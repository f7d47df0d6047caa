"""Documents as bytes: made when they are first asked for, kept until what they tell of changes.

Making all takes up to seconds of CPU: it is done in a thread, by one at a time. What is kept is compressed,
which makes it a tenth; nearly all clients take it so. A document is kept for each version that is served and
one for all, each with the resources that it was made of: tables change, but versions that keep theirs keep
their documents.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from apiserver.brand import Brand
from apiserver.endpoints.openapi import gnostic
from apiserver.endpoints.openapi.documents import Documents, version_key
from apiserver.endpoints.openapi.operations import JSON, Operations
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.vocabulary import Document, GroupVersion

# The level from which more time saves little.
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class Published:
    """A document as bytes.

    digest: of its JSON, whatever the form: the hash of its URL. compressed: by gzip.
    """

    digest: str
    compressed: bytes

    def plain(self) -> bytes:
        return gzip.decompress(self.compressed)


@dataclass(slots=True)
class _Kept:
    """source: what the document was made of. forms: compressed, by media type."""

    source: object
    digest: str
    forms: dict[str, bytes] = field(default_factory=dict)


class Publisher:
    def __init__(self, brand: Brand, schemas: BuiltinSchemas, operations: Operations) -> None:
        self._brand = brand
        self._schemas = schemas
        self._operations = operations
        self._versions: dict[GroupVersion, _Kept] = {}
        self._all: _Kept | None = None
        self._making = asyncio.Lock()

    async def digests(self, table: ResourceTable) -> Mapping[str, str]:
        """The digest of every version's document, by its name."""
        if not self._knows(table):
            async with self._making:
                await asyncio.to_thread(self._make_versions, table)
        return {version_key(each): self._versions[each].digest for each in table.group_versions}

    async def version(self, table: ResourceTable, group_version: GroupVersion, form: str) -> Published:
        """OpenAPI v3 of one version that the table serves. form: a media type."""
        resources = table.group_versions[group_version]
        async with self._making:
            kept = self._versions.get(group_version)
            if kept is None or kept.source != resources:
                kept = await asyncio.to_thread(self._make_version, group_version, resources)
            return await _in_form(kept, form, gnostic.to_v3)

    async def everything(self, table: ResourceTable, form: str) -> Published:
        """OpenAPI v2 of all versions. form: a media type."""
        async with self._making:
            if self._all is None or self._all.source is not table:
                self._all = None  # Never two of them.
                self._all = await asyncio.to_thread(self._make_all, table)
            return await _in_form(self._all, form, gnostic.to_v2)

    def _knows(self, table: ResourceTable) -> bool:
        versions = table.group_versions
        return self._versions.keys() == versions.keys() and all(
            kept.source == versions[each] for each, kept in self._versions.items()
        )

    # ---- in a thread

    def _documents(self) -> Documents:
        return Documents(self._schemas.definitions(), self._brand, self._operations)

    def _make_versions(self, table: ResourceTable) -> None:
        for gone in self._versions.keys() - table.group_versions.keys():
            del self._versions[gone]
        for group_version, resources in table.group_versions.items():
            kept = self._versions.get(group_version)
            if kept is None or kept.source != resources:
                self._make_version(group_version, resources)

    def _make_version(self, group_version: GroupVersion, resources: tuple[ServedResource, ...]) -> _Kept:
        kept = _keep(resources, self._documents().v3(group_version, resources))
        self._versions[group_version] = kept
        return kept

    def _make_all(self, table: ResourceTable) -> _Kept:
        return _keep(table, self._documents().v2(table.group_versions))


def _keep(source: object, document: Document) -> _Kept:
    text = orjson.dumps(document)
    digest = hashlib.sha256(text).hexdigest().upper()
    return _Kept(source, digest, {JSON: gzip.compress(text, _LEVEL, mtime=0)})


async def _in_form(kept: _Kept, form: str, to_protobuf: Callable[[Document], bytes]) -> Published:
    if form not in kept.forms:
        kept.forms[form] = await asyncio.to_thread(_protobuf, kept.forms[JSON], to_protobuf)
    return Published(kept.digest, kept.forms[form])


def _protobuf(compressed: bytes, to_protobuf: Callable[[Document], bytes]) -> bytes:
    document = orjson.loads(gzip.decompress(compressed))
    return gzip.compress(to_protobuf(document), _LEVEL, mtime=0)
