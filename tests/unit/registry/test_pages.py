"""Lists that are read in pages: all of one revision, whatever is written meanwhile."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta.options import ListOptions
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.store import FIRST_PAGE_OBJECTS, PAGE_BYTES, Registry
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from tests.support.in_process import resource, server

CONFIG_MAPS: Final = resource("configmaps", "")
META_GROUP: Final = "meta.k8s.io"
COUNT: Final = 2 * FIRST_PAGE_OBJECTS + 3


async def create(registry: Registry, name: str, size: int = 1, **labels: str) -> None:
    meta = {"name": name, "namespace": "n", "labels": labels}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": "x" * size}}
    await registry.create(
        WriteRequest(resource=CONFIG_MAPS, namespace="n", name=name), ProposedObject(document)
    )


def options(**query: Any) -> ListOptions:
    return ListOptions.for_list(
        {name: [str(value)] for name, value in query.items()}, CONFIG_MAPS.known_fields, META_GROUP
    )


# The query, and how many objects it lists.
LISTS: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "all": ({}, COUNT),
    "some": ({"labelSelector": "kind=odd"}, COUNT // 2),
    "the first of many": ({"limit": 100}, 100),
    "the first of few": ({"limit": 5}, 5),
    "as many as there are": ({"limit": COUNT}, COUNT),
    "of any age": ({"resourceVersion": "0"}, COUNT),
}


@pytest.mark.parametrize(("query", "count"), LISTS.values(), ids=LISTS)
async def test_pages_are_of_one_revision(store: EmbeddedStore, query: dict[str, Any], count: int) -> None:
    async with server(store) as registry:
        for number in range(COUNT):
            await create(registry, f"c-{number:03}", kind="odd" if number % 2 else "even")
        whole = await registry.list(CONFIG_MAPS, "n", options(**query))
        found, revisions, last = [], set(), whole
        async for last in registry.pages(CONFIG_MAPS, "n", options(**query)):
            found += [each.key for each in last.objects]
            revisions.add(last.revision)
            # What was listed goes, and what comes behind it was not there.
            for each in last.objects:
                await registry.delete(DeleteRequest(CONFIG_MAPS, "n", each.key.rpartition("/")[2]))
            await create(registry, f"d-{len(found)}", kind="odd")
        assert found == [each.key for each in whole.objects]
        assert len(found) == count
        assert revisions == {whole.revision}
        assert (last.continue_token, last.remaining) == (whole.continue_token, whole.remaining)


async def test_the_same_pages_can_be_read_again(store: EmbeddedStore) -> None:
    """With a token, too: from where it goes on, at the revision that was found."""
    async with server(store) as registry:
        for number in range(10):
            await create(registry, f"c-{number}")
        first = await registry.list(CONFIG_MAPS, "n", options(limit=4))
        anew = registry.at_revision(options(**{"continue": first.continue_token}), first.revision)
        for each in first.objects:
            await registry.delete(DeleteRequest(CONFIG_MAPS, "n", each.key.rpartition("/")[2]))
        for listed, names in (
            (registry.at_revision(options(), first.revision), range(10)),
            (anew, range(4, 10)),
        ):
            pages = [page async for page in registry.pages(CONFIG_MAPS, "n", listed)]
            found = [each.key.rpartition("/")[2] for page in pages for each in page.objects]
            assert found == [f"c-{number}" for number in names]


async def test_pages_of_large_objects_are_short(store: EmbeddedStore) -> None:
    """All but the first, of which nobody knows before how large its objects are."""
    size = PAGE_BYTES // 32
    async with server(store) as registry:
        for number in range(FIRST_PAGE_OBJECTS + 40):
            await create(registry, f"c-{number:03}", size)
        pages = [len(page.objects) async for page in registry.pages(CONFIG_MAPS, "n", options())]
        assert pages == [FIRST_PAGE_OBJECTS, 31, 9]
