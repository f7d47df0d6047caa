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
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import orjson

from apiserver.brand import Brand
from apiserver.endpoints.openapi import gnostic
from apiserver.endpoints.openapi.documents import Documents, V2Part, v2_frame, version_key
from apiserver.endpoints.openapi.operations import JSON, Operations
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.vocabulary import Document, GroupVersion

# The level from which more time saves little.
_LEVEL: Final = 6
# Of parts, which are taken apart for each new document.
_PART_LEVEL: Final = 1


@dataclass(frozen=True, slots=True)
class CompressedDocument:
    """A document as bytes.

    digest: of its JSON, whatever the form: the hash of its URL. compressed: by gzip.
    """

    digest: str
    compressed: bytes

    def plain(self) -> bytes:
        return gzip.decompress(self.compressed)


@dataclass(slots=True)
class _CachedDocument:
    """source: what the document was made of. forms: compressed, by media type."""

    source: object
    digest: str
    forms: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _CachedPart:
    """A part of the document of v2: what stands between braces there, compressed.

    source: what it was made of.
    """

    source: object
    compressed: tuple[bytes, bytes]

    @classmethod
    def of(cls, source: object, part: V2Part) -> _CachedPart:
        paths, definitions = (zlib.compress(orjson.dumps(each)[1:-1], _PART_LEVEL) for each in part)
        return cls(source, (paths, definitions))

    def paths(self) -> bytes:
        return zlib.decompress(self.compressed[0])

    def definitions(self) -> bytes:
        return zlib.decompress(self.compressed[1])


class DocumentCache:
    def __init__(self, brand: Brand, schemas: BuiltinSchemas, operations: Operations) -> None:
        self._brand = brand
        self._schemas = schemas
        self._operations = operations
        self._versions: dict[GroupVersion, _CachedDocument] = {}
        self._all: _CachedDocument | None = None
        # Of the document of v2; None has all that is not custom.
        self._parts: dict[GroupVersion | None, _CachedPart] = {}
        self._building = asyncio.Lock()

    async def digests(self, table: ResourceTable) -> Mapping[str, str]:
        """The digest of every version's document, by its name."""
        if not self._is_current(table):
            async with self._building:
                await asyncio.to_thread(self._build_versions, table)
        return {version_key(each): self._versions[each].digest for each in table.group_versions}

    async def version(
        self, table: ResourceTable, group_version: GroupVersion, form: str
    ) -> CompressedDocument:
        """OpenAPI v3 of one version that the table serves. form: a media type."""
        resources = table.group_versions[group_version]
        async with self._building:
            kept = self._versions.get(group_version)
            if kept is None or kept.source != resources:
                kept = await asyncio.to_thread(self._build_version, group_version, resources)
            return await _in_form(kept, form, gnostic.to_v3)

    async def everything(self, table: ResourceTable, form: str) -> CompressedDocument:
        """OpenAPI v2 of all versions. form: a media type."""
        async with self._building:
            if self._all is None or self._all.source is not table:
                self._all = None  # Never two of them.
                self._all = await asyncio.to_thread(self._build_v2, table)
            return await _in_form(self._all, form, gnostic.to_v2)

    def _is_current(self, table: ResourceTable) -> bool:
        versions = table.group_versions
        return self._versions.keys() == versions.keys() and all(
            kept.source == versions[each] for each, kept in self._versions.items()
        )

    # ---- in a thread

    def _documents(self) -> Documents:
        return Documents(self._schemas.definitions(), self._brand, self._operations)

    def _build_versions(self, table: ResourceTable) -> None:
        for gone in self._versions.keys() - table.group_versions.keys():
            del self._versions[gone]
        for group_version, resources in table.group_versions.items():
            kept = self._versions.get(group_version)
            if kept is None or kept.source != resources:
                self._build_version(group_version, resources)

    def _build_version(
        self, group_version: GroupVersion, resources: tuple[ServedResource, ...]
    ) -> _CachedDocument:
        kept = _keep(resources, self._documents().v3(group_version, resources))
        self._versions[group_version] = kept
        return kept

    def _build_v2(self, table: ResourceTable) -> _CachedDocument:
        """Put together from parts: those of custom versions change alone."""
        fixed: dict[GroupVersion, tuple[ServedResource, ...]] = {}
        custom: dict[GroupVersion, tuple[ServedResource, ...]] = {}
        for group_version, resources in table.group_versions.items():
            is_custom = all(each.keeping is not None for each in resources)
            (custom if is_custom else fixed)[group_version] = resources
        for gone in self._parts.keys() - custom.keys() - {None}:
            del self._parts[gone]
        parts = [self._part(None, tuple(fixed.items()), lambda documents: documents.v2_part(fixed))]
        for group_version, resources in custom.items():
            make = partial(_custom_part, group_version, resources)
            parts.append(self._part(group_version, resources, make))
        before, after = v2_frame()
        text = b"".join(
            (
                orjson.dumps(before)[:-1],
                b',"paths":{',
                b",".join(part.paths() for part in parts),
                b'},"definitions":{',
                b",".join(part.definitions() for part in parts),
                b"},",
                orjson.dumps(after)[1:],
            )
        )
        return _keep_text(table, text)

    def _part(
        self, key: GroupVersion | None, source: object, make: Callable[[Documents], V2Part]
    ) -> _CachedPart:
        kept = self._parts.get(key)
        if kept is None or kept.source != source:
            kept = self._parts[key] = _CachedPart.of(source, make(self._documents()))
        return kept


def _custom_part(
    group_version: GroupVersion, resources: tuple[ServedResource, ...], documents: Documents
) -> V2Part:
    return documents.v2_custom_part(group_version, resources)


def _keep(source: object, document: Document) -> _CachedDocument:
    return _keep_text(source, orjson.dumps(document))


def _keep_text(source: object, text: bytes) -> _CachedDocument:
    digest = hashlib.sha256(text).hexdigest().upper()
    return _CachedDocument(source, digest, {JSON: gzip.compress(text, _LEVEL, mtime=0)})


async def _in_form(
    kept: _CachedDocument, form: str, to_protobuf: Callable[[Document], bytes]
) -> CompressedDocument:
    if form not in kept.forms:
        kept.forms[form] = await asyncio.to_thread(_protobuf, kept.forms[JSON], to_protobuf)
    return CompressedDocument(kept.digest, kept.forms[form])


def _protobuf(compressed: bytes, to_protobuf: Callable[[Document], bytes]) -> bytes:
    document = orjson.loads(gzip.decompress(compressed))
    return gzip.compress(to_protobuf(document), _LEVEL, mtime=0)
