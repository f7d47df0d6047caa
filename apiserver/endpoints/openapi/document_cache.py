"""Caches encoded documents: each is built on first use, and again when its resources have changed.

Building all of them takes up to seconds of CPU: it is done in a thread, by one request at a time. They are
cached compressed, at a tenth of their size; nearly all clients accept gzip. There is a document of v3 for
each group version and one of v2, each with the resources that it was built from: when the table of resources
is replaced, versions whose resources are the same keep their documents.

A document that has changed is joined from parts, which are text: only those of changed custom resources are
built again. A thousand definitions of one group would otherwise be built for each change of one of them, and
70 MB of small objects left behind.

The documents of the server's own paths (`apis/apps`, `version`) are small: they are built together.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import orjson

from apiserver.endpoints.aggregation.remote_versions import OpenApiPart
from apiserver.endpoints.compression import GzipBytes, compress, decompress
from apiserver.endpoints.openapi import gnostic
from apiserver.endpoints.openapi.documents import (
    DocumentPart,
    Documents,
    v2_document,
    v3_document,
    version_key,
)
from apiserver.endpoints.openapi.operations import Operations
from apiserver.endpoints.openapi.remote_parts import RemoteParts
from apiserver.load.switch_interval import compute_in_thread
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.registry.served_resource import ResourceTable, ServedResource, cache_keys
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.wire.media_types import JSON

# The level of parts, which are decompressed for each new document.
_PART_LEVEL: Final = 1


class CompressedDocument(NamedTuple):
    """An encoded document.

    digest: of its JSON, whatever the form: the hash in its URL.
    """

    digest: str
    compressed: GzipBytes


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class PlainDocument:
    """An encoded document that is not compressed."""

    data: bytes


class PlainDocuments:
    """Documents for the few clients that do not accept gzip, shared for as long as they are being sent."""

    def __init__(self) -> None:
        self._documents: WeakValueDictionary[GzipBytes, PlainDocument] = WeakValueDictionary()
        self._decompressing = asyncio.Lock()

    async def of(self, document: CompressedDocument) -> PlainDocument:
        """Returns a document decompressed; the caller holds it while sending."""
        async with self._decompressing:
            plain = self._documents.get(document.compressed)
            if plain is None:
                plain = PlainDocument(await asyncio.to_thread(decompress, document.compressed))
                self._documents[document.compressed] = plain
            return plain


@dataclass(slots=True)
class _CachedDocument:
    """A document in all the forms that were requested.

    source: what the document was built from. forms: compressed by gzip, by media type.
    """

    source: object
    digest: str
    forms: dict[str, GzipBytes] = field(default_factory=dict)


@dataclass(slots=True)
class _OfTable:
    """The documents of one resource table, built on first use. others: the parts of extension servers in
    v2.
    """

    v2: _CachedDocument | None = None
    others: Sequence[OpenApiPart] = ()


class _WantedPart(NamedTuple):
    """Identifies a part of a document. source: the comparable values that it is built from."""

    source: object
    build: Callable[[Documents], DocumentPart]


class _CachedPart(NamedTuple):
    """A part of a document: the members of its paths and of its schemas, as text, compressed.

    source: the values that it was built from.
    """

    source: object
    compressed: tuple[bytes, bytes]

    @classmethod
    def of(cls, source: object, part: DocumentPart) -> _CachedPart:
        paths, schemas = (zlib.compress(orjson.dumps(each)[1:-1], _PART_LEVEL) for each in part)
        return cls(source, (paths, schemas))

    def both(self) -> tuple[bytes, bytes]:
        """Returns the members of the paths, and of the schemas."""
        paths, schemas = map(zlib.decompress, self.compressed)
        return paths, schemas


class _PartCache:
    """The parts of all documents of one version of OpenAPI.

    They are kept for each group version by the names of its custom resources; the name is empty for the
    shared part. The group version is None for everything that is not custom.
    """

    def __init__(self) -> None:
        self._parts: dict[GroupVersion | None, dict[str, _CachedPart]] = {}

    def keep_only(self, versions: Iterable[GroupVersion | None]) -> None:
        for gone in self._parts.keys() - set(versions):
            del self._parts[gone]

    def parts(
        self, group_version: GroupVersion | None, wanted: Mapping[str, _WantedPart], documents: Documents
    ) -> Iterable[_CachedPart]:
        """Returns the parts of a group version, rebuilt where their source has changed."""
        known, parts = self._parts.get(group_version, {}), {}
        for name, part in wanted.items():
            cached = known.get(name)
            if cached is None or cached.source != part.source:
                cached = _CachedPart.of(part.source, part.build(documents))
            parts[name] = cached
        self._parts[group_version] = parts
        return parts.values()


class DocumentCache:
    def __init__(
        self,
        brand: Brand,
        schemas: BuiltinSchemas,
        operations: Operations,
        release: EmulatedRelease,
        *,
        shows_enums: bool = True,
    ) -> None:
        """operations: makes the documents' paths of each resource. shows_enums: see `Documents`."""
        self._release = release
        self._documents: Callable[[], Documents] = lambda: Documents(
            schemas.definitions(), brand, operations, release, shows_enums=shows_enums
        )
        self._versions: dict[GroupVersion, _CachedDocument] = {}
        self._pages: dict[str, _CachedDocument] = {}
        self._page_groups: frozenset[str] = frozenset()
        self._v3_parts, self._v2_parts = _PartCache(), _PartCache()
        self._remote_parts = RemoteParts()
        self._building = asyncio.Lock()

    async def digests(self, table: ResourceTable) -> Mapping[str, str]:
        """Returns the digest of each v3 document, by its name (`apis/apps/v1`, `apis/apps`, `version`)."""
        if not self._is_current(table):
            async with self._building:
                await compute_in_thread(self._build_versions, table)
        versions = {version_key(each): self._versions[each].digest for each in table.group_versions}
        return versions | {name: page.digest for name, page in self._pages.items()}

    async def v3(self, table: ResourceTable, group_version: GroupVersion, form: str) -> CompressedDocument:
        """Returns the document of a group version that the table serves. form: a media type."""
        resources = table.group_versions[group_version]
        async with self._building:
            cached = self._versions.get(group_version)
            if cached is None or cached.source != cache_keys(resources):
                cached = await compute_in_thread(self._build_version, group_version, resources)
            return await _in_form(cached, form, gnostic.to_v3)

    async def v3_page(self, table: ResourceTable, name: str, form: str) -> CompressedDocument | None:
        """Returns the document of a path that is no group version (`apis/apps`, `version`), if it has one."""
        async with self._building:
            if not self._has_pages(table):
                await compute_in_thread(self._build_pages, table)
            cached = self._pages.get(name)
            return None if cached is None else await _in_form(cached, form, gnostic.to_v3)

    async def v2(
        self, table: ResourceTable, form: str, others: Sequence[OpenApiPart] = ()
    ) -> CompressedDocument:
        """Returns the document of all group versions. form: a media type. others: parts of other servers."""
        async with self._building:
            # The table holds it, so that the old one is released before the new one is built.
            built = table.derived(self, lambda _: _OfTable())
            if built.v2 is None or built.others != others:
                built.v2 = None  # The old one is released before the new one is built.
                built.v2 = await compute_in_thread(self._build_v2, table, others)
                built.others = others
            return await _in_form(built.v2, form, gnostic.to_v2)

    def _is_current(self, table: ResourceTable) -> bool:
        versions = table.group_versions
        return (
            self._versions.keys() == versions.keys()
            and all(cached.source == cache_keys(versions[each]) for each, cached in self._versions.items())
            and self._has_pages(table)
        )

    def _has_pages(self, table: ResourceTable) -> bool:
        return bool(self._pages) and self._page_groups == _fixed_groups(table)

    # ---- in a thread

    def _build_versions(self, table: ResourceTable) -> None:
        for gone in self._versions.keys() - table.group_versions.keys():
            del self._versions[gone]
        self._v3_parts.keep_only(table.group_versions)
        self._build_pages(table)
        for group_version, resources in table.group_versions.items():
            cached = self._versions.get(group_version)
            if cached is None or cached.source != cache_keys(resources):
                self._build_version(group_version, resources)

    def _build_pages(self, table: ResourceTable) -> None:
        if not self._has_pages(table):
            groups = _fixed_groups(table)
            self._pages = {
                name: _compressed(None, orjson.dumps(document))
                for name, document in self._documents().v3_pages(groups).items()
            }
            self._page_groups = groups

    def _build_version(
        self, group_version: GroupVersion, resources: tuple[ServedResource, ...]
    ) -> _CachedDocument:
        documents = self._documents()
        if _are_custom(resources):
            names = documents.shared_definitions(resources)
            shared = _WantedPart(names, lambda each: each.v3_shared_part(group_version, names))
            wanted = {"": shared, **_own_parts(resources, Documents.v3_part)}
            parts = self._v3_parts.parts(group_version, wanted, documents)
            text = _text(v3_document(_EMPTY, self._release), b"schemas", *_members(parts))
        else:
            text = orjson.dumps(documents.v3(group_version, resources))
        cached = self._versions[group_version] = _compressed(cache_keys(resources), text)
        return cached

    def _build_v2(self, table: ResourceTable, others: Sequence[OpenApiPart]) -> _CachedDocument:
        fixed: dict[GroupVersion, tuple[ServedResource, ...]] = {}
        custom: dict[GroupVersion, tuple[ServedResource, ...]] = {}
        for group_version, resources in table.group_versions.items():
            (custom if _are_custom(resources) else fixed)[group_version] = resources
        self._v2_parts.keep_only([None, *custom])
        documents = self._documents()
        source = tuple((each, cache_keys(resources)) for each, resources in fixed.items())
        all_fixed = _WantedPart(source, lambda each: each.v2_all(fixed))
        parts = [*self._v2_parts.parts(None, {"": all_fixed}, documents)]
        for group_version, resources in custom.items():
            shared = _WantedPart(None, partial(Documents.v2_version_part, group_version=group_version))
            wanted = {"": shared, **_own_parts(resources, Documents.v2_part)}
            parts += self._v2_parts.parts(group_version, wanted, documents)
        paths, definitions = _members(parts)
        if others:
            known = orjson.loads(b"{%b}" % b",".join(definitions))
            for other in self._remote_parts.merged(others, known):
                paths.append(orjson.dumps(other.paths)[1:-1])
                definitions += filter(None, [orjson.dumps(other.schemas)[1:-1]])
        return _compressed(
            None, _text(v2_document(_EMPTY, self._release), b"definitions", paths, definitions)
        )


_EMPTY: Final = DocumentPart({}, {})


def _fixed_groups(table: ResourceTable) -> frozenset[str]:
    """Returns the built-in groups, as groups of definitions have no document, like in Kubernetes."""
    return frozenset(
        group_version.group
        for group_version, resources in table.group_versions.items()
        if not _are_custom(resources)
    )


def _are_custom(resources: Iterable[ServedResource]) -> bool:
    return all(each.is_custom for each in resources)


def _own_parts(
    resources: Iterable[ServedResource], build: Callable[[Documents, ServedResource], DocumentPart]
) -> Mapping[str, _WantedPart]:
    """Returns the parts of custom resources, by resource name."""

    def part_of(resource: ServedResource) -> _WantedPart:
        return _WantedPart(resource.cache_key, lambda documents: build(documents, resource))

    return {each.resource: part_of(each) for each in resources}


def _members(parts: Iterable[_CachedPart]) -> tuple[list[bytes], list[bytes]]:
    """Returns the members of paths and of schemas in some parts."""
    both = [part.both() for part in parts]
    return [paths for paths, _ in both if paths], [schemas for _, schemas in both if schemas]


def _text(empty: Document, schemas_key: bytes, paths: Sequence[bytes], schemas: Sequence[bytes]) -> bytes:
    """Returns a document as text. empty: the document without members. schemas_key: the key of its
    schemas.
    """
    opening, schemas_opening = b'"paths":{', b'"%b":{' % schemas_key
    before, rest = orjson.dumps(empty).split(opening, 1)
    between, after = rest.split(schemas_opening, 1)
    return b"".join((before, opening, b",".join(paths), between, schemas_opening, b",".join(schemas), after))


def _compressed(source: object, text: bytes) -> _CachedDocument:
    digest = hashlib.sha256(text).hexdigest().upper()
    return _CachedDocument(source, digest, {JSON: compress(text)})


async def _in_form(
    cached: _CachedDocument, form: str, to_protobuf: Callable[[Document], bytes]
) -> CompressedDocument:
    if form not in cached.forms:
        cached.forms[form] = await compute_in_thread(_protobuf, cached.forms[JSON], to_protobuf)
    return CompressedDocument(cached.digest, cached.forms[form])


def _protobuf(compressed: GzipBytes, to_protobuf: Callable[[Document], bytes]) -> GzipBytes:
    document = orjson.loads(decompress(compressed))
    return compress(to_protobuf(document))
