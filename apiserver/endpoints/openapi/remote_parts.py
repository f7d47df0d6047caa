"""Merges the OpenAPI v2 documents of extension servers into this server's.

A definition that differs from the one of the same name here is renamed to `…_v2`, with everything in its
document that refers to it. An invalid part does not break the document: one that cannot be encoded in
protobuf is left out.
Source: k8s.io/kube-openapi, pkg/aggregator, MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import orjson

from apiserver.endpoints.aggregation.openapi_v2 import KINDS, references
from apiserver.endpoints.aggregation.remote_versions import OpenApiPart
from apiserver.endpoints.openapi import gnostic
from apiserver.endpoints.openapi.documents import DocumentPart, v2_document
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.meta.vocabulary import Document

log = logging.getLogger(__name__)

# Of all other servers together; what is more is left out.
MERGED_BYTES_MAX: Final = 16 * 1024 * 1024
_DEFINITIONS: Final = "#/definitions/"


class RemoteParts:
    """Merges parts, and remembers which parts are readable, as finding out takes up to seconds."""

    def __init__(self) -> None:
        self._readable: dict[str, bool] = {}  # by digest

    def merged(self, parts: Sequence[OpenApiPart], known: dict[str, Any]) -> Iterator[DocumentPart]:
        """Yields the parts as they are added to a document.

        known: the definitions that the document has; those of the parts are added.
        """
        self._readable = {each.digest: self._is_readable(each) for each in _within_bounds(parts)}
        for each in parts:
            if self._readable.get(each.digest):
                part = _renamed(_document(each), known)
                known |= part.schemas
                yield part

    def _is_readable(self, part: OpenApiPart) -> bool:
        known = self._readable.get(part.digest)
        if known is not None:
            return known
        try:
            gnostic.to_v2(v2_document(_document(part), DEFAULT_RELEASE))
        except Exception as error:  # Anything may be in it.
            log.warning(
                "omitting the invalid OpenAPI v2 document of an extension server: %s: %s",
                type(error).__name__,
                error,
            )
            return False
        return True


def _within_bounds(parts: Iterable[OpenApiPart]) -> Iterator[OpenApiPart]:
    size = 0
    for each in parts:
        size += each.size
        if size > MERGED_BYTES_MAX:
            log.warning(
                "omitting OpenAPI v2 documents of extension servers, because all documents together exceed "
                "%d bytes",
                MERGED_BYTES_MAX,
            )
            return
        yield each


def _document(part: OpenApiPart) -> DocumentPart:
    found: Document = orjson.loads(zlib.decompress(part.compressed))
    return DocumentPart(found["paths"], found["definitions"])


def _renamed(part: DocumentPart, known: dict[str, Any]) -> DocumentPart:
    """Returns the new members of a part, with its definitions renamed where their names are taken."""
    definitions: dict[str, Any] = part.schemas
    names = {name: _free_name(name, definitions, known) for name in definitions}
    new = {names[name]: each for name, each in definitions.items() if names[name] not in known}
    for each in (*references(part.paths), *references(list(new.values()))):
        name = each["$ref"].removeprefix(_DEFINITIONS)
        each["$ref"] = _DEFINITIONS + names.get(name, name)
    return DocumentPart(part.paths, new)


def _free_name(name: str, definitions: dict[str, Any], known: dict[str, Any]) -> str:
    """Returns a name that no other definition has."""
    wanted, found, number = _without_kinds(definitions[name]), name, 1
    while found in known and _without_kinds(known[found]) != wanted:
        number += 1
        found = f"{name}_v{number}"
        while found in definitions:
            number += 1
            found = f"{name}_v{number}"
    return found


def _without_kinds(definition: Any) -> Any:
    """Removes from shared definitions the lists of kinds, which differ between servers."""
    return {key: value for key, value in definition.items() if key != KINDS}
