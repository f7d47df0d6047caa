"""Starts what runs beside requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Final, NamedTuple

from apiserver.app.parts import Parts
from apiserver.controllers.bootstrap import BootstrapHook
from apiserver.controllers.rbac_bootstrap import RbacBootstrapHook
from apiserver.endpoints.health import PostStartHook
from apiserver.metrics.work_queues import MeasuredQueue
from storage.auto_compaction import AutoCompactor

HAND_OVER_S: Final = 0.001


class _Upkeep(NamedTuple):
    """What looks at everything that is stored, and sees that it is as it should be, until it is cancelled.

    run: is given what to call once it has looked for the first time.
    hook: that is done then, if there is one.
    """

    name: str
    run: Callable[[Callable[[], None]], Coroutine[None, None, None]]
    hook: PostStartHook | None = None


def start(tasks: asyncio.TaskGroup, parts: Parts, later: asyncio.Event | None) -> list[asyncio.Task[None]]:
    """Start the tasks that run beside requests. Returns them: they run until they are cancelled.

    later: of a server that begins with what another one had, and has seen to: after this it looks for itself.
        What a server creates at its first start was created there, and stays deleted if it was deleted since.
    """
    for queue in _queues(parts):
        parts.core.metrics.work_queues.add(queue)
    return [tasks.create_task(work, name=name) for name, work in _work(parts, later)]


def _work(parts: Parts, later: asyncio.Event | None) -> Iterator[tuple[str, Coroutine[None, None, None]]]:
    """Yields what runs, with the name of its task."""
    config, core = parts.core.config, parts.core
    yield "watch-cache", core.registry.cache.run()
    yield parts.informers.name, _wait_for_cache(parts)
    yield "bootstrap-hooks", _bootstrap(parts, has_been_done=later is not None)
    definitions_hook, definitions = parts.definitions
    yield "definitions", definitions.run(definitions_hook.done)
    yield "deadlines", parts.limits.deadlines.run()
    yield "body-limits", parts.limits.bodies.run()
    yield "certificates", parts.certificate_keeper.run()
    for files in parts.watched_files:
        yield "watched-files", files.run()
    # Whose address is the server's own, in whatever was stored before.
    hook, service = parts.kubernetes_service
    yield hook.name, service.run(hook.done)
    if parts.limits.fairness is not None:
        yield "priority-and-fairness", parts.limits.fairness.run()
    if parts.flow_control_configuration is not None:
        hook, configuration = parts.flow_control_configuration
        yield hook.name, configuration.run(hook.done)
    if parts.service_networks is not None:
        yield "service-networks", parts.service_networks.run()
    if parts.rbac_informer is not None:
        yield "rbac-policy", parts.rbac_informer.run()
    if parts.authorization_recheck is not None:
        yield "authorization-recheck", parts.authorization_recheck.run()
    if parts.authorization_reload is not None:
        yield "authorization-config", parts.authorization_reload.run()
    if parts.node_informer is not None:
        yield "node-graph", parts.node_informer.run()
    for name, each in parts.authentication.background.items():
        yield name, each.run()
    if config.storage.etcd_compaction_interval_s:
        compactor = AutoCompactor(
            core.store,
            prefix=config.storage.etcd_prefix,
            interval_s=config.storage.etcd_compaction_interval_s,
        )
        yield "compaction", compactor.run()
    if parts.replicas is not None:
        yield "replicas", parts.replicas.run()
    for controller in parts.aggregation.controllers:
        yield "aggregation", controller.run()
    if parts.encryption is not None:
        yield "encryption", parts.encryption.run(core.registry.cache.refill)
        if config.storage.etcd_servers:
            yield "encrypted-identity", parts.encryption.keep_identity()
        if config.storage.encryption_provider_config_automatic_reload:
            yield "encryption-configuration", parts.encryption.follow_file()
    for upkeep in _upkeep(parts):
        yield upkeep.name, _run_upkeep(upkeep, later)


async def _wait_for_cache(parts: Parts) -> None:
    await parts.core.registry.cache.wait_until_filled()
    parts.informers.done()


def _upkeep(parts: Parts) -> Iterator[_Upkeep]:
    if parts.default_service_cidr is not None:
        hook, service_cidr = parts.default_service_cidr
        yield _Upkeep(hook.name, service_cidr.run, hook)
    for hook, kept in (parts.authentication_info, parts.service_allocations):
        yield _Upkeep(hook.name, kept.run, hook)
    if parts.flow_control_objects is not None:
        hook, objects = parts.flow_control_objects
        followed = parts.flow_control_configuration

        async def keep(on_first: Callable[[], None]) -> None:
            def on_kept() -> None:
                on_first()
                if followed is not None:
                    followed[1].look_again()

            await objects.run(on_kept)

        yield _Upkeep(hook.name, keep, hook)
    if parts.core.config.storage.etcd_db_metric_poll_interval_s:
        yield _Upkeep("storage-size", lambda _: parts.storage_size.run())
    registration = parts.registration
    if registration is not None:
        yield _Upkeep("autoregister", lambda _: registration.run())
    yield _Upkeep("controllers", lambda _: parts.controllers.run())


async def _run_upkeep(upkeep: _Upkeep, later: asyncio.Event | None) -> None:
    on_first = _nothing if upkeep.hook is None else upkeep.hook.done
    if later is not None:
        on_first()
        await later.wait()
        # Who has waited for the server, in another thread of this interpreter, goes on before.
        await asyncio.sleep(HAND_OVER_S)
    await upkeep.run(on_first)


def _nothing() -> None:
    pass


def _queues(parts: Parts) -> Iterator[MeasuredQueue]:
    """Yields the work queues of what runs. The controller manager tells of its own."""
    if parts.flow_control_configuration is not None:
        yield parts.flow_control_configuration[1].queue
    if parts.registration is not None:
        yield parts.registration.queue
    for controller in parts.aggregation.controllers:
        yield controller.queue
    yield from parts.definitions[1].queues
    yield parts.service_allocations[1].queue


async def _bootstrap(parts: Parts, *, has_been_done: bool) -> None:
    """Run the post-start hooks. has_been_done: what they create has been created, by another server."""

    async def run(hook: PostStartHook, bootstrap: BootstrapHook | RbacBootstrapHook) -> None:
        if not has_been_done:
            await bootstrap.run(parts.core.registry)
        if parts.rbac_informer is not None:
            await parts.rbac_informer.wait_until_complete()
        hook.done()

    async with asyncio.TaskGroup() as tasks:
        for hook, bootstrap in parts.hooks:
            tasks.create_task(run(hook, bootstrap), name=hook.name)
