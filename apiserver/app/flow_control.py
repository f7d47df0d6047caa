"""Builds API Priority and Fairness: what decides, what follows its objects, and what keeps them."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from apiserver.app.core import Core
from apiserver.catalogue.flowcontrol.flow_schemas import MANDATORY_FLOW_SCHEMAS
from apiserver.catalogue.flowcontrol.priority_level_configurations import MANDATORY_PRIORITY_LEVELS
from apiserver.controllers.flow_control_configuration import FlowControlConfiguration
from apiserver.controllers.flow_control_objects import FlowControlObjects, maintained
from apiserver.endpoints.priority_and_fairness import Fairness
from apiserver.flowcontrol.flow_control import FlowControl
from apiserver.flowcontrol.flow_schemas import ClassifiedRequest, FlowSchema
from apiserver.flowcontrol.priority_levels import LevelSpec
from apiserver.flowcontrol.work_estimates import ResourceSize
from apiserver.registry.object_sizes import ObjectSizes
from apiserver.registry.served_resource import ServedResource


def build_fairness(core: Core) -> Fairness | None:
    """Returns None if it is switched off."""
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
    sizes = ObjectSizes(core.registry.cache, monotonic)

    def size_of(target: ClassifiedRequest) -> ResourceSize | None:
        resource = core.served.find(target.group, target.version, target.resource)
        return None if resource is None else ResourceSize(*sizes.of(core.registry.prefix_of(resource)))

    return Fairness(control, size_of, core.loop, request_timeout_s=config.serving.request_timeout_s)


def build_flow_control_objects(core: Core) -> FlowControlObjects | None:
    """Returns what keeps the objects that every server has; None if they are not served."""
    kept = tuple(maintained(*_resources(core)))
    return FlowControlObjects(core.registry, kept) if kept else None


def build_flow_control_configuration(
    core: Core, fairness: Fairness, is_complete: Callable[[], bool]
) -> FlowControlConfiguration | None:
    """Returns what tells fairness of the objects; None if they are not served, and it has the mandatory ones.

    is_complete: whether the objects that every server has are there.
    """
    flow_schemas, priority_levels = _resources(core)
    if flow_schemas is None or priority_levels is None:
        return None
    return FlowControlConfiguration(
        core.registry, flow_schemas, priority_levels, fairness.control, core.clock, is_complete
    )


def _resources(core: Core) -> tuple[ServedResource | None, ServedResource | None]:
    """Returns FlowSchemas and PriorityLevelConfigurations, as far as they are served."""
    group, hub = core.brand.group("flowcontrol.apiserver"), core.served.hub
    return hub(group, "flowschemas"), hub(group, "prioritylevelconfigurations")
