"""A server without HTTP: what controllers see of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from apiserver.brand import Brand
from apiserver.catalogue.builtins import builtin_resources
from apiserver.registry.offload import Offload
from apiserver.registry.own_writes import OwnWrites
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import ObjectDecoder, StoredObject
from apiserver.schema.builtin import BuiltinSchemas
from storage.interface import Storage
from storage.watch_cache import WatchCache

PREFIX: Final = "/registry"
TABLE: Final = builtin_resources(Brand(), BuiltinSchemas((1, 34)), event_ttl_s=3600)


def resource(name: str, group: str = "rbac.authorization.k8s.io") -> ServedResource:
    found = TABLE.find(group, "v1", name)
    assert found is not None
    return found


@asynccontextmanager
async def server(
    store: Storage, cache_class: type[WatchCache[StoredObject]] = WatchCache
) -> AsyncIterator[Registry]:
    """One of those that share a store, with a cache of its own."""
    own_writes = OwnWrites()
    decode = ObjectDecoder(own_writes)
    cache = cache_class(store, prefix=PREFIX, decode=decode, size_of=lambda found: len(found.tail))
    running = asyncio.create_task(cache.run())
    await cache.wait_until_filled()
    yield Registry(store, cache, own_writes, brand=Brand(), prefix=PREFIX, offload=Offload())
    running.cancel()
    await asyncio.wait([running])
