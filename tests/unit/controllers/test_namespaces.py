"""The deletion of namespaces, as the store sees it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from apiserver.controllers.namespaces import PAGE_OBJECTS, NamespaceController
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from tests.support.eventually import eventually
from tests.support.in_process import TABLE, resource, running, server

NAMESPACES, CONFIG_MAPS = resource("namespaces", ""), resource("configmaps", "")
# Of the namespace itself, of all that is in it, and of a second look when the namespace has changed.
CONSISTENT_READS_MAX: Final = 6


class CountingStore(EmbeddedStore):
    """consistent_reads: how often a read has asked for the revision that it must wait for."""

    consistent_reads = 0

    async def current_revision(self) -> int:
        self.consistent_reads += 1
        return await super().current_revision()


async def create(registry: Registry, namespace: str, count: int) -> None:
    await registry.create(
        WriteRequest(resource=NAMESPACES, namespace=""), ProposedObject({"metadata": {"name": namespace}})
    )
    for number in range(count):
        request = WriteRequest(resource=CONFIG_MAPS, namespace=namespace)
        await registry.create(request, ProposedObject({"metadata": {"name": f"c-{number}"}}))


async def test_a12_one_consistent_read_tells_what_is_in_a_namespace(tmp_path: Path) -> None:
    """Of a busy store each takes tenths of a second, and there are more than forty resources."""
    store = await CountingStore.open(tmp_path / "store", durable=False)
    async with server(store) as registry:
        await create(registry, "doomed", count=PAGE_OBJECTS + 20)
        await registry.delete(DeleteRequest(NAMESPACES, "", "doomed"))
        key = registry.key(NAMESPACES, "", "doomed")
        await registry.cache.revision_at()
        store.consistent_reads = 0
        async with running(NamespaceController(registry, ServedTable(TABLE), time.time).run()):
            await eventually(lambda: registry.cache.get_cached(key) is None)
        assert registry.count(CONFIG_MAPS) == 0
        assert store.consistent_reads <= CONSISTENT_READS_MAX
    await store.close()
