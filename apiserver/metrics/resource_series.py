"""Series by resource, with a limit for custom resources.

Users who may create definitions could make any number of series. A custom resource has its own series while
it is served, and while its metric has room. All others are counted together, as `other`; the number of such
cases is counted, too, under Kubernetes' name for it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeAlias, TypeVar

from apiserver.meta.vocabulary import GroupResource, GroupVersion
from apiserver.metrics.series import Family, single
from apiserver.registry.served_resource import ServedTable

# A resource by its name, not the ServedResource: that is replaced when a definition changes.
VersionedResource: TypeAlias = tuple[GroupVersion, str]

OTHER: Final = "other"
OTHER_VERSIONED: Final[VersionedResource] = (GroupVersion(OTHER, OTHER), OTHER)
OTHER_RESOURCE: Final = GroupResource(OTHER, OTHER)
# Those of custom resources in one metric. Those of a thousand definitions fit, each used with all verbs.
CUSTOM_SERIES_MAX: Final = 10_000

_R = TypeVar("_R")
_S = TypeVar("_S")


class ServedState(enum.Enum):
    """The state of a resource for metrics. GONE: it is not served, or not any more."""

    BUILT_IN = enum.auto()
    CUSTOM = enum.auto()
    GONE = enum.auto()


class ServedNames:
    """Knows the names of served resources, and counts observations of others.

    table: the served resources; without it all names are those of built-in resources.
    """

    def __init__(self) -> None:
        self.table: ServedTable | None = None
        self.others_total = 0

    def of_version(self, name: VersionedResource) -> ServedState:
        group_version, plural = name
        return self._state(group_version.group, (group_version,), plural)

    def of_resource(self, resource: GroupResource) -> ServedState:
        """Returns the state of a resource: it is served if any of its versions is."""
        if self.table is None:
            return ServedState.BUILT_IN
        return self._state(
            resource.group, self.table.current.groups.get(resource.group, ()), resource.resource
        )

    def _state(self, group: str, versions: Iterable[GroupVersion], plural: str) -> ServedState:
        if self.table is None or not self.table.current.is_custom(group):
            return ServedState.BUILT_IN
        is_served = any(self.table.find(*version, plural) is not None for version in versions)
        return ServedState.CUSTOM if is_served else ServedState.GONE

    def families(self) -> Iterable[Family]:
        yield single("cardinality_enforcement_unexpected_categorizations_total", self.others_total)


class ResourceSeries(dict[tuple[Any, ...], _S], Generic[_R, _S]):
    """The series of one metric, by keys whose first item is a resource. Missing series are made.

    state: returns the state of a resource. other: the key for all resources without their own series.
    new: makes a series.
    """

    def __init__(
        self,
        names: ServedNames,
        state: Callable[[_R], ServedState],
        other: _R,
        new: Callable[..., _S],
        *,
        custom_max: int = CUSTOM_SERIES_MAX,
    ) -> None:
        super().__init__()
        self._names, self._state, self._other, self._new = names, state, other, new
        self._custom_max = custom_max
        self._custom: dict[_R, list[tuple[Any, ...]]] = {}
        self._custom_count = 0

    def __missing__(self, key: tuple[Any, ...]) -> _S:
        """Returns a new series, or the one for all others."""
        resource, *labels = key
        state = self._state(resource)
        if state is ServedState.CUSTOM and self._custom_count < self._custom_max:
            self._custom.setdefault(resource, []).append(key)
            self._custom_count += 1
        elif state is not ServedState.BUILT_IN:
            self._names.others_total += 1
            key = (self._other, *labels)
            if (known := self.get(key)) is not None:
                return known
        series = self[key] = self._new(*key)
        return series

    def forget(self, resource: _R) -> None:
        """Drop the series of a custom resource that is no longer served."""
        keys = self._custom.pop(resource, [])
        self._custom_count -= len(keys)
        for key in keys:
            del self[key]
