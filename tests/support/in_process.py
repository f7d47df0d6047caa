"""A server without HTTP: what controllers see of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from apiserver.catalogue.builtins import Catalogue
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import ObjectStorage, Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.registry.transactions import OwnWrites
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.interface import Storage
from apiserver.storage.watch_cache import WatchCache

PREFIX: Final = "/registry"
TABLE: Final = Catalogue(Brand(), BuiltinSchemas((1, 34)), event_ttl_s=3600).resources()


def resource(name: str, group: str = "rbac.authorization.k8s.io") -> ServedResource:
    found = TABLE.find(group, "v1", name)
    assert found is not None
    return found


async def caught_up(registry: Registry) -> None:
    """Returns when the watch cache, which controllers read, has all that was written before the call."""
    await registry.cache.revision_at()


@asynccontextmanager
async def running(*work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Runs coroutines beside the block, and cancels them at its end."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks)


@asynccontextmanager
async def server(
    store: Storage,
    cache_class: type[WatchCache[StoredObject]] = WatchCache,
    make_decoder: Callable[[OwnWrites], StoredVersionDecoder] = StoredVersionDecoder,
) -> AsyncIterator[Registry]:
    """One of those that share a store, with a cache of its own."""
    own_writes = OwnWrites()
    decode = make_decoder(own_writes)
    cache = cache_class(store, prefix=PREFIX, decode=decode, size_of=lambda found: len(found.tail))
    async with running(cache.run()):
        await cache.wait_until_filled()
        storage = ObjectStorage(store=store, cache=cache, own_writes=own_writes, prefix=PREFIX)
        offload = Offload()
        yield Registry(storage, Brand(), offload)
        offload.close()
