"""Starts what runs beside requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Final

from apiserver.app.parts import Parts
from apiserver.controllers.bootstrap import BootstrapHook
from apiserver.controllers.rbac_bootstrap import RbacBootstrapHook
from apiserver.endpoints.health import PostStartHook
from apiserver.metrics.work_queues import MeasuredQueue
from storage.auto_compaction import AutoCompactor

HAND_OVER_S: Final = 0.001


def start(
    tasks: asyncio.TaskGroup, parts: Parts, controllers_wait_for: asyncio.Event | None
) -> list[asyncio.Task[None]]:
    """Start the tasks that run beside requests. Returns them: they run until they are cancelled.

    controllers_wait_for: what comes before the controllers, if anything does.
    """
    for queue in _queues(parts):
        parts.core.metrics.work_queues.add(queue)
    return [tasks.create_task(work, name=name) for name, work in _work(parts, controllers_wait_for)]


def _work(
    parts: Parts, controllers_wait_for: asyncio.Event | None
) -> Iterator[tuple[str, Coroutine[None, None, None]]]:
    """Yields what runs, with the name of its task."""
    config, core = parts.core.config, parts.core
    yield "watch-cache", core.registry.cache.run()
    yield "bootstrap-hooks", _bootstrap(parts)
    definitions_hook, definitions = parts.definitions
    yield "definitions", definitions.run(definitions_hook.done)
    yield "deadlines", parts.limits.deadlines.run()
    yield "body-limits", parts.limits.bodies.run()
    yield "certificates", parts.certificate_keeper.run()
    for files in parts.watched_files:
        yield "watched-files", files.run()
    if parts.default_service_cidr is not None:
        hook, service_cidr = parts.default_service_cidr
        yield hook.name, service_cidr.run(hook.done)
    for hook, kept in (parts.kubernetes_service, parts.authentication_info, parts.service_allocations):
        yield hook.name, kept.run(hook.done)
    if parts.limits.fairness is not None:
        yield "priority-and-fairness", parts.limits.fairness.run()
    yield from _flow_control(parts)
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
    if config.etcd_compaction_interval_s:
        compactor = AutoCompactor(
            core.store, prefix=config.etcd_prefix, interval_s=config.etcd_compaction_interval_s
        )
        yield "compaction", compactor.run()
    if config.etcd_db_metric_poll_interval_s:
        yield "storage-size", parts.storage_size.run()
    if parts.replicas is not None:
        yield "replicas", parts.replicas.run()
    if parts.registration is not None:
        yield "autoregister", parts.registration.run()
    for controller in parts.aggregation.controllers:
        yield "aggregation", controller.run()
    yield "controllers", _control(parts, controllers_wait_for)
    if parts.encryption is not None:
        yield "encryption", parts.encryption.run(core.registry.cache.refill)
        if config.etcd_servers:
            yield "encrypted-identity", parts.encryption.keep_identity()
        if config.encryption_provider_config_automatic_reload:
            yield "encryption-configuration", parts.encryption.follow_file()


def _flow_control(parts: Parts) -> Iterator[tuple[str, Coroutine[None, None, None]]]:
    """Yields what keeps and follows the objects of flow control."""
    look_again: Callable[[], None] | None = None
    if parts.flow_control_configuration is not None:
        hook, configuration = parts.flow_control_configuration
        look_again = configuration.look_again
        yield hook.name, configuration.run(hook.done)
    if parts.flow_control_objects is not None:
        hook, kept = parts.flow_control_objects
        mark_done = hook.done

        def on_first() -> None:
            mark_done()
            if look_again is not None:
                look_again()

        yield hook.name, kept.run(on_first)


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


async def _control(parts: Parts, after: asyncio.Event | None) -> None:
    if after is not None:
        await after.wait()
        # Who has waited for the server, in another thread of this interpreter, goes on before.
        await asyncio.sleep(HAND_OVER_S)
    await parts.controllers.run()


async def _bootstrap(parts: Parts) -> None:
    """Run the post-start hooks."""

    async def run(hook: PostStartHook, bootstrap: BootstrapHook | RbacBootstrapHook) -> None:
        await bootstrap.run(parts.core.registry)
        if parts.rbac_informer is not None:
            await parts.rbac_informer.wait_until_complete()
        hook.done()

    async with asyncio.TaskGroup() as tasks:
        for hook, bootstrap in parts.hooks:
            tasks.create_task(run(hook, bootstrap), name=hook.name)
