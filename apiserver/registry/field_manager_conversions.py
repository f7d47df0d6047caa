"""Webhook conversions that are needed to find the owners of fields in several versions (row F30).

Pure functions find the owners, perhaps in a thread. When they need a document that only a webhook can
convert, they raise `ConversionsNeeded`, and `run_converting` calls them again once the webhook has converted
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, ParamSpec, TypeAlias, TypeVar

import orjson

from apiserver.load.size_class import SizeClass, size_class, size_class_of_document
from apiserver.meta.errors import ApiError
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import TooDeep
from apiserver.registry.version_codec import Offloader

# How often one write may ask a webhook. After that, versions are taken to differ in their name alone.
ROUNDS_MAX: Final = 32

# A document as JSON, and the apiVersion that it is converted to.
_Conversion: TypeAlias = tuple[bytes, str]
_P = ParamSpec("_P")
_T = TypeVar("_T")


class ConversionsNeeded(Exception):
    """A webhook has to convert documents before the same work can be done."""

    def __init__(
        self, conversions: FieldManagerConversions, needed: Mapping[_Conversion, ServedResource]
    ) -> None:
        super().__init__()
        self._conversions, self._needed = conversions, needed

    async def make(self, offload: Offloader) -> None:
        """Converts the documents. Raises ApiError if a required conversion fails."""
        await self._conversions.make(self._needed, offload)


async def run_converting(
    offload: Offloader, size: SizeClass, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> _T:
    """Returns the result of `work`, which starts again after each conversion that it needs.

    Raises ApiError if a required conversion fails, and the errors of `work`.
    """
    while True:
        try:
            return await offload.run_begun(size, work, *args, **kwargs)
        except ConversionsNeeded as needed:
            await needed.make(offload)


class FieldManagerConversions:
    """The documents that a webhook has converted for one write.

    is_required: whether the write fails if the webhook does. Otherwise the versions then count as differing
        in name only.
    """

    def __init__(self, *, is_required: bool) -> None:
        self._is_required = is_required
        self._made: dict[_Conversion, Document] = {}
        self._rounds = 0
        self._are_by_name = False

    def convert(
        self, document: Document, *, to: ServedResource, by_name: Callable[[Document], Document]
    ) -> Document:
        """Returns a document in the version of a resource, which must not be changed.

        by_name: converts versions that differ in name only. Raises ConversionsNeeded, TooDeep.
        """
        if self._are_by_name:
            return by_name(document)
        conversion = _text(document), to.api_version
        if conversion not in self._made:
            raise ConversionsNeeded(self, {conversion: to})
        return self._made[conversion]

    def require(self, documents: Sequence[Document], versions: Iterable[ServedResource]) -> None:
        """Requires that each document has been converted to each version.

        Raises ConversionsNeeded for missing conversions; TooDeep.
        """
        if self._are_by_name:
            return
        texts = [_text(document) for document in documents]
        needed = {(text, to.api_version): to for to in versions for text in texts}
        for known in needed.keys() & self._made.keys():
            del needed[known]
        if needed:
            raise ConversionsNeeded(self, needed)

    async def make(self, needed: Mapping[_Conversion, ServedResource], offload: Offloader) -> None:
        """Convert the needed documents: see `ConversionsNeeded.make`."""
        self._rounds += 1
        if self._rounds > ROUNDS_MAX:
            self._are_by_name = True
            return
        try:
            for to in set(needed.values()):
                wanted = [each for each in needed if needed[each] is to]
                await self._make(wanted, to, offload)
        except ApiError:
            if self._is_required:
                raise
            self._are_by_name = True

    async def _make(self, wanted: Sequence[_Conversion], to: ServedResource, offload: Offloader) -> None:
        documents = [await offload.run_begun(size_class(len(text)), orjson.loads, text) for text, _ in wanted]
        for conversion, document in zip(wanted, await to.codec.converted(documents), strict=True):
            size = size_class_of_document(document)
            # Now it is of that version, and only pruned by its schema.
            self._made[conversion] = await offload.run_begun(size, to.codec.convert, document, to.codec)


def _text(document: Document) -> bytes:
    """Returns a document as JSON, without managedFields. Raises TooDeep."""
    meta = document["metadata"]
    if "managedFields" in meta:
        meta = {name: value for name, value in meta.items() if name != "managedFields"}
        document = {**document, "metadata": meta}
    try:
        return orjson.dumps(document)
    except TypeError:
        raise TooDeep from None
