"""Builds the collaborators that most parts of a server share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from apiserver.app.hooks import Hooks
from apiserver.app.host_process import HostProcess, SharedParts, service_allocator
from apiserver.app.metrics import Metrics
from apiserver.app.secure_serving import SecureServing
from apiserver.app.stores import watch_cache
from apiserver.app.workers.worker import SupervisorClient
from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.cli.config import Config
from apiserver.endpoints.cors import AllowedOrigins
from apiserver.endpoints.recent_requests import RecentRequests
from apiserver.endpoints.representation import MetaV1Encoders
from apiserver.endpoints.watch_stream import WatchStreams
from apiserver.extensions.host.hooks import ExtensionHooks
from apiserver.load.memory_budget import MemoryBudget
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.releases.gates import FeatureGates
from apiserver.metrics.allocations import AllocationMetrics
from apiserver.metrics.validation import ValidationMetrics
from apiserver.registry.allocations import AllocationKeys
from apiserver.registry.declarative_validation import DeclarativeValidation
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.storage_form import StorageForms
from apiserver.registry.store import ObjectStorage, Registry
from apiserver.registry.stored_version_decoder import StoredVersionDecoder
from apiserver.registry.strategy import DeclaredChecks
from apiserver.registry.transactions import OwnWrites, WriteObservers
from apiserver.registry.write_path import IsStale
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.validation.declarative.rules import DeclaredRules
from apiserver.storage.interface import Storage

if TYPE_CHECKING:
    from apiserver.app.history import History
    from apiserver.storage.history.changes import Cipher


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Core:
    """The collaborators that most parts of a server share.

    catalogue: all versions of the built-in types. forms: in which objects are stored.
    origins: the allowed CORS origins.
    clock: seconds since 1970.
    extensions: the functions of extensions; none until these have started.
    history: None unless the server keeps one.
    has_initial_state: the server begins with another server's objects: see `InitialState`.
    has_own_process: nothing but the server runs in this process.
    """

    config: Config
    store: Storage
    registry: Registry
    served: ServedTable
    field_managers: FieldManagers
    schemas: BuiltinSchemas
    meta_encoders: MetaV1Encoders
    offload: Offload
    metrics: Metrics
    memory_budget: MemoryBudget
    serving: SecureServing
    decode: StoredVersionDecoder
    catalogue: Catalogue
    allocations: AllocationMetrics
    forms: StorageForms
    hooks: Hooks
    extensions: ExtensionHooks
    origins: AllowedOrigins
    streams: WatchStreams
    recent_requests: RecentRequests
    history: History | None
    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    has_initial_state: bool
    has_own_process: bool

    @property
    def loop_clock(self) -> Callable[[], float]:
        """The event loop's clock, in seconds."""
        return self.loop.time

    @property
    def brand(self) -> Brand:
        return self.config.brand


class CoreInputs(NamedTuple):
    """The parts of a server that exist before its core. cipher: encrypts the history, if it is encrypted."""

    offload: Offload
    metrics: Metrics
    serving: SecureServing
    host: HostProcess
    cipher: Cipher | None


def build_core(config: Config, store: Storage, is_stale: IsStale | None, inputs: CoreInputs) -> Core:
    """Build the parts that most others share. is_stale: see `ObjectStorage`. Raises CannotStart."""
    offload, metrics, serving = inputs.offload, inputs.metrics, inputs.serving
    brand, clock, loop = config.brand, inputs.host.clock, asyncio.get_running_loop()
    schemas = inputs.host.shared.schemas(config.release.version, brand.vendor)
    allocator = service_allocator(config)
    allocations = AllocationMetrics(
        AllocationKeys(config.storage.etcd_prefix), allocator.all_networks, allocator.node_ports
    )
    catalogue = inputs.host.shared.catalogue(config).for_server(
        allocator,
        _declarative_validation(config.gates, metrics.validation)
        if config.gates.is_on("DeclarativeValidation")
        else None,
    )
    own_writes = OwnWrites()
    decode = StoredVersionDecoder(
        own_writes, catalogue, metrics.storage.count_decode_error, prefix=config.storage.etcd_prefix
    )
    history, cache = None, watch_cache(config, store, decode, metrics.storage, allocations)
    if config.storage.history:
        # Not needed otherwise.
        from apiserver.app.history import open_history

        history = open_history(config, store, catalogue, inputs.cipher, clock.time)
        if history.recorder is not None:
            cache.follow(history.recorder)
    storage = ObjectStorage(
        store=store,
        cache=cache,
        own_writes=own_writes,
        prefix=config.storage.etcd_prefix,
        is_stale=is_stale,
        observers=WriteObservers(allocations, metrics.storage.lease_objects.observe),
        note=None if history is None else history.note,
    )
    metrics.served_names.table = served = ServedTable(
        catalogue.resources(RuntimeConfig(config.api.runtime_config), config.api.emulate_removal)
    )
    field_managers = FieldManagers(served, config.deviations, clock.time)
    origins = AllowedOrigins(config.serving.cors_allowed_origins)
    return Core(
        config=config,
        store=store,
        registry=Registry(storage, brand, offload, clock, field_managers),
        served=served,
        field_managers=field_managers,
        schemas=schemas,
        meta_encoders=MetaV1Encoders(schemas.get),
        offload=offload,
        metrics=metrics,
        memory_budget=MemoryBudget(_memory_limit_bytes(config, serving.worker, inputs.host.shared)),
        serving=serving,
        decode=decode,
        catalogue=catalogue,
        allocations=allocations,
        forms=storage.forms,
        hooks=inputs.host.hooks,
        extensions=ExtensionHooks(metrics.extensions),
        origins=origins,
        streams=WatchStreams(
            metrics.requests,
            loop.time,
            origins,
            watches_max=config.serving.max_watches,
            make_stream=inputs.host.hooks.watch_stream,
        ),
        recent_requests=RecentRequests(clock.time),
        history=history,
        loop=loop,
        clock=clock.time,
        has_initial_state=inputs.host.initial_state is not None,
        has_own_process=inputs.host.is_own,
    )


def _declarative_validation(
    gates: FeatureGates, counts: ValidationMetrics
) -> Callable[[str, DeclaredRules], DeclaredChecks]:
    """Builds declarative validation; it takes over only where it is compared, too (row H07)."""
    takes_over = gates.is_on("DeclarativeValidationTakeover")
    return partial(DeclarativeValidation, counts=counts, takes_over=takes_over)


def _memory_limit_bytes(config: Config, worker: SupervisorClient | None, shared: SharedParts) -> int:
    """Returns how much memory this process may use, in bytes; 0 for no limit. Workers share the limit."""
    limit = config.storage.memory_limit_bytes
    if limit is None:
        limit = shared.container_limit_bytes
    return limit if worker is None else limit // config.serving.workers
