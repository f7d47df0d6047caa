"""Runs admission plugins, which may change or refuse writes.

Mutating admission comes first, validating admission once the resource's own rules have been applied; both
call plugins in their order. Which plugins handle a write depends on its resource, subresource and operation
alone, and is cached: where there are none, admission costs a lookup.
Source: k8s.io/apiserver, pkg/admission.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from apiserver.errors import ApiError
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


class ApplicablePlugins:
    """The plugins that handle one write."""

    def __init__(self, attributes: AdmissionAttributes, plugins: Sequence[Plugin]) -> None:
        self._attributes = attributes
        self._plugins = plugins

    # The two loops are alike, and a call for each plugin would cost more than many a plugin does.

    async def mutate(self, new: Document, old: Document | None) -> list[str]:
        """See `registry.write_request.Admission`. A refusal carries the warnings of the plugins before it."""
        warnings: list[str] = []
        try:
            for plugin in self._plugins:
                warnings += await plugin.mutate(self._attributes, new, old) or ()
        except ApiError as refused:
            refused.add_warnings(warnings)
            raise
        return warnings

    async def validate(self, new: Document | None, old: Document | None) -> list[str]:
        """As `mutate`."""
        warnings: list[str] = []
        try:
            for plugin in self._plugins:
                warnings += await plugin.validate(self._attributes, new, old) or ()
        except ApiError as refused:
            refused.add_warnings(warnings)
            raise
        return warnings


class AdmissionChain:
    """All plugins that are enabled, in their order."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self._all = tuple(plugins)
        self._plugins_for = lru_cache(maxsize=CACHED_MAX)(self._find)

    def admission_for(self, attributes: AdmissionAttributes) -> ApplicablePlugins | None:
        """Returns the plugins that handle a write; None if there are none."""
        resource = attributes.resource.stored_group_resource
        plugins = self._plugins_for(resource, attributes.subresource, attributes.operation)
        return ApplicablePlugins(attributes, plugins) if plugins else None

    def _find(self, resource: GroupResource, subresource: str, operation: Operation) -> tuple[Plugin, ...]:
        return tuple(p for p in self._all if p.handles(resource, subresource, operation))
