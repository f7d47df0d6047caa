"""Builds API Priority and Fairness: the dispatcher, the informers and the keepers of its objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

from apiserver.app.background import BackgroundTask
from apiserver.app.core import Core
from apiserver.catalogue.flowcontrol.flow_schemas import MANDATORY_FLOW_SCHEMAS
from apiserver.catalogue.flowcontrol.priority_level_configurations import MANDATORY_PRIORITY_LEVELS
from apiserver.controllers import flow_control_objects
from apiserver.controllers.flow_control_objects import FlowControlObjects, maintained
from apiserver.endpoints import flow_control_configuration
from apiserver.endpoints.flow_control_configuration import FlowControlConfiguration
from apiserver.endpoints.flowcontrol.flow_control import FlowControl
from apiserver.endpoints.flowcontrol.flow_schemas import FlowSchema
from apiserver.endpoints.flowcontrol.priority_levels import LevelSpec
from apiserver.endpoints.health import Health
from apiserver.endpoints.priority_and_fairness import Fairness
from apiserver.registry.object_sizes import ObjectSizes


def build_fairness(core: Core) -> Fairness | None:
    """Returns the dispatcher of requests; None if API Priority and Fairness is switched off."""
    config = core.config
    if not config.serving.enable_priority_and_fairness:
        return None
    control = FlowControl(
        config.serving.max_requests_inflight + config.serving.max_mutating_requests_inflight,
        [
            LevelSpec.of({"metadata": {"name": name}, "spec": spec})
            for name, spec in MANDATORY_PRIORITY_LEVELS.items()
        ],
        [
            FlowSchema.of({"metadata": {"name": name}, "spec": spec})
            for name, spec in MANDATORY_FLOW_SCHEMAS.items()
        ],
        core.metrics.requests.in_flight,
        monotonic(),
    )
    sizes = ObjectSizes(core.registry.cache, core.served, core.registry.keys, monotonic)
    return Fairness(control, sizes.of, core.loop, request_timeout_s=config.serving.request_timeout_s)


def flow_control_tasks(core: Core, health: Health, fairness: Fairness | None) -> Iterator[BackgroundTask]:
    """Yields the tasks that keep the objects every server has, and those that pass all objects to fairness.

    Objects that are not served are not kept; fairness uses the mandatory ones then.
    """
    if fairness is not None:
        yield BackgroundTask("priority-and-fairness", fairness.run)
    group, hub = core.brand.group("flowcontrol.apiserver"), core.served.hub
    flow_schemas, priority_levels = hub(group, "flowschemas"), hub(group, "prioritylevelconfigurations")
    kept = tuple(maintained(flow_schemas, priority_levels))
    if not kept:
        return
    producer = health.add_post_start_hook(flow_control_objects.HOOK)
    objects, configuration = FlowControlObjects(core.registry, kept), None
    if fairness is not None and flow_schemas is not None and priority_levels is not None:
        consumer = health.add_post_start_hook(flow_control_configuration.HOOK)
        configuration = FlowControlConfiguration(
            core.registry,
            flow_schemas,
            priority_levels,
            fairness.control,
            core.clock,
            lambda: producer.is_done,
        )
        yield BackgroundTask.hooked(consumer, configuration.run, (configuration.queue,))

    async def keep(on_first: Callable[[], None]) -> None:
        def on_kept() -> None:
            on_first()
            if configuration is not None:
                configuration.look_again()

        await objects.run(on_kept)

    yield BackgroundTask.hooked(producer, keep, is_upkeep=True)
