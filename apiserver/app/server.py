"""Runs one server, from its start to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apiserver.app import background
from apiserver.app.core import Core, CoreInputs, build_core
from apiserver.app.host_process import HostProcess
from apiserver.app.metrics import build_metrics
from apiserver.app.outbound import open_outbound
from apiserver.app.parts import Parts, build_parts
from apiserver.app.secure_serving import SecureServing
from apiserver.app.serving.listening import (
    AdminKubeconfig,
    CannotStart,
    kubeconfig_path,
    tls_files,
    tls_options,
    url,
)
from apiserver.app.serving.prefix_check import require_no_copy, require_usable_prefix
from apiserver.app.serving.server_keys import ServerKeys, local_identity, make_server_keys
from apiserver.app.serving.serving_tls import ServingTls, UnusableTls
from apiserver.app.startup_probes import answering_probes
from apiserver.app.stores import open_store, release_memory
from apiserver.app.workers.worker import SupervisorClient
from apiserver.cli.config import Config
from apiserver.controllers.replicas import Replicas, ReplicasDisagree
from apiserver.endpoints.health import Health, cache_check
from apiserver.golang.durations import short_duration
from apiserver.load import process_memory
from apiserver.load.memory_keeper import MemoryKeeper
from apiserver.load.offload import Offload
from apiserver.metrics.encryption import EncryptionMetrics
from apiserver.metrics.health_checks import HealthCheckMetrics
from apiserver.metrics.storage import ObservedStorage
from apiserver.storage.errors import StorageError
from apiserver.storage.interface import Storage

if TYPE_CHECKING:
    from apiserver.app.encryption import EncryptionAtRest
    from apiserver.app.serving.pki import ClusterIdentity

READY_POLL_S: Final = 0.01
# A server that stops is in a hurry; its record expires by itself, too.
LEAVE_WITHIN_S: Final = 1.0
# At least so many watches end in a second when the server stops, as with kube-apiserver.
WATCHES_ENDED_PER_S: Final = 200
# How long to wait for the store before probes are answered without it.
PATIENCE_S: Final = 1.0


class App:
    """Runs one server: `run` serves until `stop` is called, which may be at any time.

    worker: the client of the supervisor, if the server is one of several processes on one port.
    host: the process that the server runs in.
    last_revision: of the store, once the server has stopped.
    """

    def __init__(
        self, config: Config, worker: SupervisorClient | None = None, *, host: HostProcess | None = None
    ) -> None:
        self._config = config
        self._running: tuple[Storage, Core] | None = None
        self.last_revision = 0
        self._host = host or HostProcess()
        self._drain_s = config.serving.request_timeout_s
        self._stopping = asyncio.Event()
        self._offload = Offload()
        self._waits_silently = worker is not None and worker.is_silent
        self._serving = SecureServing(config, worker, self._host.sockets, self._host.hooks.refuses_handshake)
        self._metrics = build_metrics(config, self._serving)

    def stop(self, drain_s: float | None = None) -> None:
        """Let `run` finish the requests under way, and return.

        drain_s: how long they may take; by default as long as the request timeout.
        """
        if drain_s is not None:
            self._drain_s = drain_s
        self._stopping.set()

    def reload(self) -> None:
        """Reload the code of extensions, if the server is ready."""
        if self._running is not None:
            self._running[1].extensions.wants_reload.set()

    @property
    def running(self) -> tuple[Storage, Core]:
        """The store and the core of the server, while it is ready."""
        assert self._running is not None
        return self._running

    async def run(self, on_ready: Callable[[str, Path], None]) -> None:
        """Serve until stopped. on_ready: called once with URL and kubeconfig when /readyz passes.

        Raises CannotStart.
        """
        config, metrics, initial = self._config, self._metrics, self._host.initial_state
        async with AsyncExitStack() as stack:
            stack.callback(self._offload.close)
            if self._host.is_own:
                metrics.event_loop.start()
            stack.callback(metrics.event_loop.close)
            clock = self._host.clock
            store = await open_store(config, clock) if initial is None else initial.open_store(clock)
            stack.push_async_callback(self._close, store)
            stack.callback(self._serving.close)
            self._serving.bind()
            making = self._begin_keys()
            observed = ObservedStorage(self._host.hooks.store(store), metrics.storage)
            encryption = await _start_encryption(config, metrics.encryption)
            cipher = None if encryption is None else encryption.history_cipher
            make_core = partial(
                build_core,
                config,
                inputs=CoreInputs(self._offload, metrics, self._serving, self._host, cipher),
            )
            if encryption is None:
                core = make_core(observed, None)
            else:
                stack.push_async_callback(encryption.close)
                encrypted = encryption.in_front_of(observed)
                core = make_core(encrypted, encrypted.is_stale)
            if initial is not None:
                initial.fill(core.registry.cache)
            self._running = store, core
            memory_keeper = self._memory_keeper(core, store, stack) if self._host.is_own else None
            health = _health(core, encryption)
            keys = await (self._shared_keys(core, health) if making is None else making)
            if keys is None or self._stopping.is_set():
                return
            tls = self._serving_tls(keys)
            if config.api.extension or self._host.extensions:
                # Few servers have extensions, whose modules take 1 MB.
                from apiserver.app.extensions import running_extensions

                await stack.enter_async_context(
                    running_extensions(core, health, self._host.extensions, keys.tokens, tls)
                )
            outbound = await stack.enter_async_context(
                open_outbound(core, keys, self._host.shared.require_pair)
            )
            parts = build_parts(core, health, outbound, keys, tls, encryption)
            if parts.replicas is not None and not await self._join(core, parts.replicas):
                return
            tls.subscribe(lambda _: self._use_tls(tls, parts))
            stack.callback(clock.subscribe(parts.http_server.prolong_idleness))
            if not self._serving.listens_when_ready:
                self._serving.listen(parts.http_server, tls)
            parts.kubeconfig.write_first(tls.known.trusted)
            async with _raising_cannot_start(), asyncio.TaskGroup() as tasks:
                # The server begins with objects that another server's controllers have reconciled. Clients
                # need not wait until this server's controllers have looked at all of them.
                is_announced = asyncio.Event()
                later = is_announced if core.has_initial_state else None
                running = background.start(tasks, parts.tasks, metrics.work_queues, later)
                if memory_keeper is not None:
                    running.append(tasks.create_task(memory_keeper.run(), name="memory"))
                announcing = self._announce(parts, memory_keeper, on_ready, tls, is_announced)
                running.append(tasks.create_task(announcing, name="announce"))
                await self._stopping.wait()
                parts.health.is_shutting_down = True
                await self._leave(parts)
                await self._drain(parts)
                for task in running:
                    task.cancel()
            self._serving.end()

    # ---- before it can serve

    def _memory_keeper(self, core: Core, store: Storage, stack: AsyncExitStack) -> MemoryKeeper:
        resident = process_memory.ResidentMemory()
        stack.callback(resident.close)
        return MemoryKeeper(
            core.memory_budget,
            process_memory.Allocator(),
            resident,
            cache=core.registry.cache,
            open_watches=lambda: core.streams.open_count,
            release_store=partial(release_memory, store),
        )

    def _begin_keys(self) -> asyncio.Future[ServerKeys] | None:
        """Begin to make the keys while the core is built; None if they depend on the store.

        The result raises CannotStart.
        """
        if self._config.storage.etcd_servers:
            return None
        loop, make = asyncio.get_running_loop(), self._host.make_keys
        if self._host.initial_state is None:
            making = loop.run_in_executor(None, make, self._config, None)
            # Something else may prevent the start before.
            making.add_done_callback(lambda done: done.cancelled() or done.exception())
        else:
            # A server that begins with what another one had has its keys, too: mostly none has to be made.
            making = loop.create_future()
            making.set_result(make(self._config, None))
        return making

    async def _shared_keys(self, core: Core, health: Health) -> ServerKeys | None:
        """Returns the keys of a server that shares its store; None if it is stopped before.

        Raises CannotStart.
        """
        identity = await self._cluster_identity(core, health)
        if identity is None:
            return None
        return await asyncio.to_thread(self._host.make_keys, self._config, identity)

    async def _cluster_identity(self, core: Core, health: Health) -> ClusterIdentity | None:
        """Returns the cluster's identity from the store, and answers probes while the store is unreachable.

        None if the server is stopped before. Raises CannotStart.
        """
        from apiserver.app.serving.cluster_identity import UnusableStoredIdentity, fetch_identity

        config = self._config
        etcd = config.storage.etcd_name
        timeout_s = config.storage.etcd_start_timeout_s
        fetching = asyncio.create_task(
            fetch_identity(
                core.store,
                config.storage.etcd_prefix,
                partial(local_identity, config),
                etcd,
                is_silent=self._waits_silently,
                check=partial(
                    require_usable_prefix,
                    core.store,
                    config.storage.etcd_prefix,
                    etcd,
                    adopts=config.storage.adopt,
                ),
            )
        )
        try:
            async with asyncio.timeout(timeout_s or None):
                await self._done_or_stopped(fetching, PATIENCE_S)
                if not (fetching.done() or self._stopping.is_set() or self._serving.listens_when_ready):
                    keys = await asyncio.to_thread(make_server_keys, config, None)
                    tls = self._serving_tls(keys)
                    kubeconfig = AdminKubeconfig(config, self._serving.port, keys.certificates)
                    kubeconfig.write_first(tls.known.trusted)
                    async with answering_probes(core, health, self._serving, tls.context):
                        await self._done_or_stopped(fetching)
                await self._done_or_stopped(fetching)
            return fetching.result() if fetching.done() else None
        except TimeoutError:
            waited = short_duration(timeout_s)
            raise CannotStart(
                f"cannot get the identity of the cluster from {etcd} within {waited} (--etcd-start-timeout)"
            ) from None
        except UnusableStoredIdentity as error:
            raise CannotStart(str(error)) from None
        finally:
            fetching.cancel()

    async def _join(self, core: Core, replicas: Replicas) -> bool:
        """Join the other servers on the store. Returns False if the server is stopped before.

        Raises CannotStart.
        """
        storage = self._config.storage
        check = partial(require_no_copy, core.store, storage.etcd_prefix, storage.etcd_name)
        joining = asyncio.create_task(replicas.join(check))
        try:
            await self._done_or_stopped(joining)
            if joining.done():
                joining.result()
            return joining.done()
        except CannotStart:
            await replicas.leave()
            raise
        except ReplicasDisagree as error:
            raise CannotStart(str(error)) from None
        finally:
            joining.cancel()

    async def _done_or_stopped(self, task: asyncio.Task[Any], timeout_s: float | None = None) -> None:
        """Wait for a task, or until the server is stopped."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((task, stopping), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    # ---- serving

    def _serving_tls(self, keys: ServerKeys) -> ServingTls:
        """Returns the TLS settings of connections. Raises CannotStart."""
        # Those that were signed by a clock that is ahead are good for servers that go by it.
        options = tls_options(self._config, checks_times=not self._host.clock.can_be_ahead)
        files = tls_files(self._config, keys.certificates)
        try:
            return ServingTls(files, options, self._host.shared.tls_context, keys.tls)
        except UnusableTls as error:
            raise CannotStart(str(error)) from None

    def _use_tls(self, tls: ServingTls, parts: Parts) -> None:
        """Use new TLS settings for handshakes that begin from now on."""
        self._serving.use(tls)
        parts.http_server.forget_certificates()
        parts.certificate_keeper.look_soon()

    async def _announce(
        self,
        parts: Parts,
        memory_keeper: MemoryKeeper | None,
        on_ready: Callable[[str, Path], None],
        tls: ServingTls,
        is_announced: asyncio.Event,
    ) -> None:
        await parts.health.wait_for_hooks()
        while not await parts.health.is_ready():  # noqa: ASYNC110  checks have no event to wait for
            await asyncio.sleep(READY_POLL_S)
        self._metrics.event_loop.begin_logging()
        # Most of the types that are written at the start are not written again: 100 kB.
        parts.core.field_managers.forget()
        if memory_keeper is not None:
            memory_keeper.freeze()  # Objects that exist by now stay.
        if self._serving.listens_when_ready:
            self._serving.listen(parts.http_server, tls)
        on_ready(url(self._config, self._serving.port), kubeconfig_path(self._config))
        is_announced.set()

    # ---- stopping

    async def _close(self, store: Storage) -> None:
        with suppress(StorageError):
            self.last_revision = await store.current_revision()
        await store.close()

    async def _leave(self, parts: Parts) -> None:
        """Release leadership, and remove this server from what is published, if the store answers soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN_S):
                await parts.controllers.leave()
        if parts.replicas is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_WITHIN_S):
                    await parts.replicas.leave()
                    await parts.kubernetes_service.leave()

    async def _drain(self, parts: Parts) -> None:
        """Fail /readyz, and serve each connection only once more, for the delay. Then stop accepting
        connections, end watches, and finish requests under way.
        """
        parts.health.is_shutting_down = True
        parts.http_server.close_after_answers()
        serving, streams = self._config.serving, parts.core.streams
        await asyncio.sleep(serving.shutdown_delay_s)
        self._serving.close()
        with suppress(StorageError, TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN_S):
                await parts.core.registry.cache.revision_at()  # for the last bookmarks of watches
        grace_s = serving.shutdown_watch_termination_grace_s
        await streams.end_gradually(min(grace_s, streams.open_count / WATCHES_ENDED_PER_S))
        streams.end_all()
        parts.forwarder.stop()
        await parts.http_server.drain(self._drain_s)


@asynccontextmanager
async def _raising_cannot_start() -> AsyncIterator[None]:
    """Raises the CannotStart of a task in place of the group of errors that it is in."""
    try:
        yield
    except BaseExceptionGroup as group:
        if (found := group.subgroup(CannotStart)) is None:
            raise
        first: BaseException = found
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


async def _start_encryption(config: Config, metrics: EncryptionMetrics) -> EncryptionAtRest | None:
    if config.storage.encryption is None:
        return None
    # Imported only by servers that encrypt.
    from apiserver.app.encryption import EncryptionAtRest

    return await EncryptionAtRest.start(config, metrics)


def _health(core: Core, encryption: EncryptionAtRest | None) -> Health:
    config = core.config
    # There are plugins that are asked, or may be later.
    checks_plugins = encryption is not None and (
        encryption.has_plugins or config.storage.encryption_provider_config_automatic_reload
    )
    return Health(
        storage=core.store.check_health,
        cache=cache_check(core.registry.cache),
        live_without_store=config.deviations.live_without_store,
        live_grace_s=config.serving.livez_grace_period_s,
        clock=core.loop_clock,
        metrics=HealthCheckMetrics(core.clock()),
        readiness=core.hooks.readiness,
        readiness_notes=core.hooks.readiness_notes,
        kms=encryption.check if encryption is not None and checks_plugins else None,
    )
