"""Opens the store that the configuration names, and makes the watch cache in front of it."""

from __future__ import annotations

from typing import Final

from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.prefix_check import require_usable_prefix
from apiserver.cli import flag_values
from apiserver.cli.config import Config
from apiserver.metrics.storage import StorageMetrics
from apiserver.registry.clock import Clock
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.errors import StorageError
from apiserver.storage.interface import Storage
from apiserver.storage.watch_cache import (
    HistoryLimits,
    NonObjectKeys,
    WatchCache,
    WatchCacheOptions,
)
from apiserver.storage.watch_cache.options import CHECK_INTERVAL_S

# The memory that one object takes beside its tail.
OBJECT_OVERHEAD_BYTES: Final = 300


async def open_store(config: Config, clock: Clock) -> Storage:
    """Opens the embedded store, or connects to etcd. Raises CannotStart."""
    if not config.storage.etcd_servers:
        try:
            if config.storage.storage_backend == flag_values.MEMORY:
                return await EmbeddedStore.in_memory(monotonic=clock.monotonic, wall=clock.time)
            return await _open_directory(config, clock)
        except StorageError as error:
            raise CannotStart(str(error)) from None
    # Not needed otherwise, and it takes time to import.
    from apiserver.storage.etcd import EtcdClient, EtcdStore, Tls

    tls = Tls(config.storage.etcd_cafile, config.storage.etcd_certfile, config.storage.etcd_keyfile)
    try:
        client = EtcdClient(config.storage.etcd_servers, tls, transport=config.storage.etcd_transport)
    except (OSError, ValueError) as error:
        raise CannotStart(str(error)) from None
    return EtcdStore(client, prefix=config.storage.etcd_prefix)


async def _open_directory(config: Config, clock: Clock) -> EmbeddedStore:
    """Opens the embedded store. Raises CannotStart, StorageError."""
    directory = config.serving.data_dir / "store"
    store = await EmbeddedStore.open(directory, monotonic=clock.monotonic, wall=clock.time)
    try:
        await require_usable_prefix(store, config.storage.etcd_prefix, str(directory), adopts=True)
    except BaseException:
        await store.close()
        raise
    return store


def release_memory(store: Storage) -> None:
    """Release memory that a store can do without."""
    if isinstance(store, EmbeddedStore):
        store.release_memory()


def watch_cache(
    config: Config,
    store: Storage,
    decode: StoredVersionDecoder,
    metrics: StorageMetrics,
    others: NonObjectKeys | None = None,
) -> WatchCache[StoredObject]:
    """Returns the watch cache in front of a store.

    decode: makes objects of stored values.
    metrics: measures how long reads wait for the cache, and maps prefixes of keys to resources.
    others: receives changes of keys that belong to no object.
    """

    def limits_of(resource_prefix: str) -> HistoryLimits:
        """Returns how much of one resource's history is kept in memory."""
        size = config.storage.watch_cache_sizes.get(metrics.resource_of(resource_prefix))
        return HistoryLimits(events_max=config.storage.default_watch_cache_size if size is None else size)

    return WatchCache(
        store,
        prefix=config.storage.etcd_prefix,
        decode=decode,
        size_of=lambda found: len(found.tail) + OBJECT_OVERHEAD_BYTES,
        options=WatchCacheOptions(
            limits_of=limits_of,
            history_bytes_max=config.storage.watch_cache_history_bytes,
            check_interval_s=CHECK_INTERVAL_S if config.gates.is_on("DetectCacheInconsistency") else 0,
            serve_snapshots=config.gates.is_on("ListFromCacheSnapshot"),
            on_wait=metrics.observe_read_wait,
        ),
        others=others,
    )
