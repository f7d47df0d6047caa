"""The schema of one version of a definition, read and compiled on first use.

It is the interface of schemas for strategies and codecs: `schemas` and `rules` compile it to checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Final, NamedTuple

import orjson

from apiserver.custom_resources.rules.rule_tree import ExpressionTimer
from apiserver.custom_resources.rules.validator import RuleValidator
from apiserver.custom_resources.schemas.custom_schema import CustomSchema
from apiserver.custom_resources.schemas.json_schema import JSONSchema, all_schemas
from apiserver.golang.regex import InvalidPattern, compile_pattern
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import SchemaCheck
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.structural import Schema

# All that is compiled from smaller ones is compiled within a few milliseconds.
LARGE_DEFINITION_BYTES: Final = 32 * 1024
# What takes time to compile in a pattern, up to a millisecond each, is many copies, or a class of Unicode.
_COSTLY_PATTERN: Final = re.compile(rb"\{\d{2,4}(?:,\d{0,4})?\}|,\d{2,4}\}|\\\\[pP]")
_COSTLY_PATTERNS_MAX: Final = 4
# To decode so many versions takes less time than to find one of them in the text.
DECODED_TOGETHER_MAX: Final = 8


class DefinitionSource:
    """Reads versions of a stored definition.

    stored: may be replaced by a later state of the definition with the same spec.
    """

    __slots__ = ("_offsets", "stored")

    def __init__(self, stored: StoredObject) -> None:
        self.stored = stored
        self._offsets: _VersionOffsets | None = None

    def version(self, name: str) -> tuple[Document, bool]:
        """Returns a version, decoded again, and whether all versions keep unknown fields.

        If there are many, only this version is decoded, at its offsets from the last full decoding: decoding
        all versions for each of them would take seconds.
        """
        stored, offsets = self.stored, self._offsets
        if (
            offsets is not None
            and offsets.resource_version == stored.resource_version
            and name in offsets.by_version
        ):
            start, end = offsets.by_version[name]
            return orjson.loads(stored.tail[start:end]), offsets.keeps_unknown
        spec = stored.document()["spec"]
        # Only definitions that were written as v1beta1 have it.
        keeps_unknown = spec.get("preserveUnknownFields") is True
        if len(spec["versions"]) > DECODED_TOGETHER_MAX:
            by_version = _offsets(stored.tail, spec["versions"])
            self._offsets = _VersionOffsets(stored.resource_version, keeps_unknown, by_version)
        return next(each for each in spec["versions"] if each["name"] == name), keeps_unknown


class _VersionOffsets(NamedTuple):
    """The offsets of the versions of a definition in its encoded form, as of a resourceVersion."""

    resource_version: str
    keeps_unknown: bool
    by_version: Mapping[str, tuple[int, int]]


def _offsets(text: bytes, versions: Iterable[Document]) -> Mapping[str, tuple[int, int]]:
    """Returns the offsets of the versions, up to the first that another encoder than ours wrote."""
    offsets: dict[str, tuple[int, int]] = {}
    end = 0
    for version in versions:
        encoded = orjson.dumps(version)
        start = text.find(encoded, end)
        if start < 0:
            break
        end = start + len(encoded)
        offsets[version["name"]] = start, end
    return offsets


class VersionSchema:
    """The schema of one version of a definition, with the checks compiled from it.

    It is a `registry.served_resource.ResourcePreparation`: a large schema is compiled in a thread.
    meta: gets the schema of ObjectMeta. timer: of the validation rules in it.
    """

    def __init__(
        self,
        source: DefinitionSource,
        version: str,
        *,
        brand: Brand,
        meta: Callable[[], Schema],
        timer: ExpressionTimer,
    ) -> None:
        self._source = source
        self._version = version
        self.brand = brand
        self._meta = meta
        self._timer = timer

    def decode(self) -> Document:
        """Returns the version of the definition, decoded again; `schema` is the schema itself."""
        return self._decode()[0]

    def _decode(self) -> tuple[Document, bool]:
        """Returns the version, and whether all versions keep unknown fields."""
        version, keeps_unknown = self._source.version(self._version)
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
        if keeps_unknown:
            schema[self.brand.extension("preserve-unknown-fields")] = True
        return {**version, "schema": schema}, keeps_unknown

    @cached_property
    def is_due(self) -> bool:
        """Whether a thread should compile the schema first, because it is large or has costly patterns."""
        tail = self._source.stored.tail
        return "custom" not in self.__dict__ and (
            len(tail) > LARGE_DEFINITION_BYTES or len(_COSTLY_PATTERN.findall(tail)) > _COSTLY_PATTERNS_MAX
        )

    def prepare(self) -> None:
        """Compile everything that requests need; `is_due` stays true until this is complete."""
        custom = self._custom_schema()
        custom.compile()
        _ = custom.schema
        for each in all_schemas(custom.document):
            if (pattern := each.get("pattern")) and _COSTLY_PATTERN.search(orjson.dumps(pattern)):
                with suppress(InvalidPattern):
                    compile_pattern(pattern)  # for its cache: the schema's parts are compiled when used
        self.__dict__.setdefault("custom", custom)
        if self.rules is not None:
            _ = self.rules.compares_old
        self.is_due = False

    @cached_property
    def custom(self) -> CustomSchema:
        return self._custom_schema()

    def _custom_schema(self) -> CustomSchema:
        version, keeps_unknown = self._decode()
        return CustomSchema(
            version["schema"], vendor=self.brand.vendor, meta=self._meta(), keeps_unknown=keeps_unknown
        )

    def document(self) -> JSONSchema:
        """Returns the schema as the definition has it; it must not be changed."""
        return self.custom.document

    def structural(self) -> Schema:
        return self.custom.schema

    def check(self) -> SchemaCheck:
        return self.custom.pruner

    def default_bytes(self) -> int:
        """Returns the maximum number of bytes that defaults add: see `registry.strategy.Strategy`."""
        return self.custom.default_bytes

    def prune(self, document: Document) -> bool:
        """Prune a converted document; returns whether it has changed."""
        return self.custom.pruner.prune(document)

    def prune_unknown(self, document: Document) -> bool:
        """Prune a converted document, but keep each null; returns whether it has changed."""
        return self.custom.pruner.prune(document, keeps_null=True)

    def complete(self, document: Document) -> bool:
        """Prune a stored document and set its defaults; returns whether it has changed."""
        return self.custom.pruner.prune_and_default(document)

    @cached_property
    def rules(self) -> RuleValidator | None:
        """The validation rules in the schema; None if there are none."""
        extension = self.brand.extension("validations")
        if not any(each.get(extension) for each in all_schemas(self.custom.document)):
            return None
        return RuleValidator(dict(self.custom.document), vendor=self.brand.vendor, timer=self._timer)
