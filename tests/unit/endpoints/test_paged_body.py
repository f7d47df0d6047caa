"""Lists that are read page by page while they are sent: the same bytes as of one that is in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import pytest

from apiserver.endpoints.negotiation import ResponseForm
from apiserver.endpoints.representation import SLICE_BYTES, Encoder, FormCaches, MetaV1Encoders, encoder_for
from apiserver.endpoints.response_bodies import PagedBody
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Expired
from apiserver.registry.results import ObjectList, PagedList
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.interface import Stored
from apiserver.wire.media_types import CBOR, JSON, YAML
from tests.support.body_slices import sent
from tests.support.in_process import resource

BRAND: Final = Brand()
CONFIG_MAPS: Final = resource("configmaps", "")
MESSAGES: Final = MetaV1Encoders(BuiltinSchemas((1, 34)).get)
FORMS: Final[dict[str, ResponseForm]] = {
    "JSON": ResponseForm(JSON, "", "v1", False, False),
    "JSON without managedFields": ResponseForm(JSON, "", "v1", True, False),
    "indented JSON": ResponseForm(JSON, "", "v1", False, True),
    "a table": ResponseForm(JSON, "Table", "v1", False, False),
    "metadata": ResponseForm(JSON, "PartialObjectMetadataList", "v1", False, False),
    "YAML": ResponseForm(YAML, "", "v1", False, False),
    "a table in YAML": ResponseForm(YAML, "Table", "v1", False, False),
    "CBOR": ResponseForm(CBOR, "", "v1", False, False),
    "protobuf": ResponseForm(BRAND.protobuf_media_type, "", "v1", False, False),
    "metadata in protobuf": ResponseForm(
        BRAND.protobuf_media_type, "PartialObjectMetadataList", "v1", False, False
    ),
}
# The sizes of the objects in each page.
PAGES: Final[dict[str, list[list[int]]]] = {
    "nothing": [[]],
    "one page": [[10, 10, 10]],
    "several": [[10], [10, 10], [10, 10, 10]],
    "pages with nothing in them": [[], [10], [], [10], []],
    "large objects": [[10, 20_000], [200_000, 10], [10, 200_000]],
    "many": [[10] * 100] * 30,
}


def stored(number: int, size: int) -> StoredObject:
    value = b'%b{"name":"c-%d","managedFields":[{"manager":"m"}]},"data":{"k":"%b"}}'
    encoded = value % (CONFIG_MAPS.head, number, b"x" * size)
    return StoredObject.of(Stored(f"/registry/core/configmaps/n/c-{number}", encoded, 7, 7))


def encoder(form: ResponseForm) -> Encoder:
    return encoder_for(CONFIG_MAPS, form, BRAND, now=lambda: 0.0, caches=FormCaches(), meta=MESSAGES)


def paged(pages: Sequence[Sequence[StoredObject]], **head: Any) -> PagedList:
    async def read() -> AsyncIterator[Sequence[StoredObject]]:
        for page in pages:
            yield page

    return PagedList(ObjectList([], 9, **head), sum(map(len, pages)), read)


async def slices_of(body: PagedBody) -> list[bytes]:
    reader, slices = body.reader(Offload()), list[bytes]()
    while (made := await reader()) is not None:
        slices.append(made)
    return slices


@pytest.mark.parametrize("pages", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_it_is_the_list_that_it_would_be(form: ResponseForm, pages: list[list[int]]) -> None:
    number, objects = 0, list[list[StoredObject]]()
    for sizes in pages:
        objects.append([stored(number + index, size) for index, size in enumerate(sizes)])
        number += len(sizes)
    head = {"continue_token": "t", "remaining": 3}
    whole = ObjectList([each for page in objects for each in page], 9, **head)  # type: ignore[arg-type]
    slices = await slices_of(PagedBody(encoder(form), paged(objects, **head)))
    assert b"".join(slices) == sent(encoder(form).list(whole))
    assert max(map(len, slices)) < 4 * SLICE_BYTES


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_one_page_is_in_memory_at_a_time(form: ResponseForm) -> None:
    """A page is read when all slices of the one before it have been made."""
    slices, behind = 0, list[int]()

    async def read() -> AsyncIterator[Sequence[StoredObject]]:
        for number in range(3):
            behind.append(slices)
            yield [stored(number, SLICE_BYTES)]

    body = PagedBody(encoder(form), PagedList(ObjectList([], 9), 3, read))
    reader = body.reader(Offload())
    while await reader() is not None:
        slices += 1
    assert behind == sorted(set(behind))


async def test_a_page_that_cannot_be_read_any_more_is_told() -> None:
    async def read() -> AsyncIterator[Sequence[StoredObject]]:
        yield [stored(1, SLICE_BYTES)]
        raise Expired("too old")

    reader = PagedBody(encoder(FORMS["JSON"]), PagedList(ObjectList([], 9), 2, read)).reader(Offload())
    assert await reader()
    with pytest.raises(Expired):
        await reader()
