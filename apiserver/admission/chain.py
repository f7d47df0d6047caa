"""Runs admission plugins, which may change or refuse writes.

Mutating admission comes first, validating admission once the resource's own rules have been applied; both
call plugins in their order, and time them. Which plugins handle a write depends on its resource, subresource
and operation alone, and is cached: where there are none, admission costs a lookup and a microsecond.
Source: k8s.io/apiserver, pkg/admission.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import lru_cache
from time import perf_counter
from typing import Final, NamedTuple

from apiserver.errors import ApiError
from apiserver.metrics.admission import ADMIT, VALIDATE, AdmissionDurations, AdmissionMetrics
from apiserver.registry.served_resource import ServedResource
from apiserver.vocabulary import Document, GroupResource, UserInfo

# Resources with subresource and operation whose plugins are cached.
CACHED_MAX: Final = 4_096


class Operation(enum.Enum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class AdmissionAttributes(NamedTuple):
    """What a write is about, apart from its objects: k8s.io/apiserver's admission.Attributes.

    name: empty for a create whose name is not known yet.
    path_name: the name in the request's path; empty if a collection is deleted, or an object created by POST.
    """

    operation: Operation
    resource: ServedResource
    namespace: str
    name: str
    user: UserInfo
    subresource: str = ""
    is_dry_run: bool = False
    path_name: str = ""


class Plugin:
    """An admission plugin. Documents are of the hub version (see `registry.version_codec`).

    name: as `--enable-admission-plugins` has it.
    """

    name: str = ""

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        """Returns whether the plugin is to be called for such writes. The answer is cached."""
        return True

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str] | None:
        """Change what is written. old: the stored object; None for a create.

        Returns warnings for the client, if there are any. Raises ApiError to refuse the write.
        """

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> Sequence[str] | None:
        """Check what will be written. new: None for a delete. Returns and raises as `mutate`."""


class TimedPlugin(NamedTuple):
    """A plugin, and where the times that it takes are counted."""

    plugin: Plugin
    durations: AdmissionDurations


class PluginSteps(NamedTuple):
    """The plugins that handle some kind of write: those that may change it, and those that check it."""

    mutating: tuple[TimedPlugin, ...]
    validating: tuple[TimedPlugin, ...]
    mutation: AdmissionDurations
    validation: AdmissionDurations


class ApplicablePlugins:
    """The plugins that handle one write."""

    def __init__(self, attributes: AdmissionAttributes, steps: PluginSteps) -> None:
        self._attributes = attributes
        self._steps = steps

    @property
    def may_mutate(self) -> bool:
        """See `registry.write_request.Admission`."""
        return bool(self._steps.mutating)

    # The two loops are alike, and a call for each plugin would cost more than many a plugin does.

    async def mutate(self, new: Document, old: Document | None) -> list[str]:
        """See `registry.write_request.Admission`. A refusal carries the warnings of the plugins before it."""
        warnings: list[str] = []
        step = durations = self._steps.mutation
        began = plugin_began = perf_counter()
        try:
            for plugin, durations in self._steps.mutating:
                warnings += await plugin.mutate(self._attributes, new, old) or ()
                now = perf_counter()
                durations.accepted.observe(now - plugin_began)
                plugin_began = now
        except Exception as failure:
            _observe_refusal(step, began, durations, plugin_began)
            if isinstance(failure, ApiError):
                failure.add_warnings(warnings)
            raise
        step.accepted.observe(plugin_began - began)
        return warnings

    async def validate(self, new: Document | None, old: Document | None) -> list[str]:
        """As `mutate`."""
        warnings: list[str] = []
        step = durations = self._steps.validation
        began = plugin_began = perf_counter()
        try:
            for plugin, durations in self._steps.validating:
                warnings += await plugin.validate(self._attributes, new, old) or ()
                now = perf_counter()
                durations.accepted.observe(now - plugin_began)
                plugin_began = now
        except Exception as failure:
            _observe_refusal(step, began, durations, plugin_began)
            if isinstance(failure, ApiError):
                failure.add_warnings(warnings)
            raise
        step.accepted.observe(plugin_began - began)
        return warnings


def _observe_refusal(
    step: AdmissionDurations, began: float, plugin: AdmissionDurations, plugin_began: float
) -> None:
    now = perf_counter()
    plugin.rejected.observe(now - plugin_began)
    step.rejected.observe(now - began)


class AdmissionChain:
    """All plugins that are enabled, in their order."""

    def __init__(self, plugins: Sequence[Plugin], metrics: AdmissionMetrics | None = None) -> None:
        self._all = tuple(plugins)
        self._metrics = AdmissionMetrics() if metrics is None else metrics
        self._steps_for = lru_cache(maxsize=CACHED_MAX)(self._find)

    def admission_for(self, attributes: AdmissionAttributes) -> ApplicablePlugins:
        """Returns the plugins that handle a write. There may be none: admission is counted nevertheless."""
        resource = attributes.resource.stored_group_resource
        steps = self._steps_for(resource, attributes.subresource, attributes.operation)
        return ApplicablePlugins(attributes, steps)

    def _find(self, resource: GroupResource, subresource: str, operation: Operation) -> PluginSteps:
        """Plugins that take no part in a step are not called in it, nor counted."""
        plugins = [each for each in self._all if each.handles(resource, subresource, operation)]
        of_plugin, of_step, name = self._metrics.of_plugin, self._metrics.of_step, operation.value
        return PluginSteps(
            mutating=tuple(
                TimedPlugin(each, of_plugin(each.name, ADMIT, name))
                for each in plugins
                if type(each).mutate is not Plugin.mutate
            ),
            validating=tuple(
                TimedPlugin(each, of_plugin(each.name, VALIDATE, name))
                for each in plugins
                if type(each).validate is not Plugin.validate
            ),
            mutation=of_step(ADMIT, name),
            validation=of_step(VALIDATE, name),
        )
