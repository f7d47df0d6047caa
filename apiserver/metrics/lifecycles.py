"""The lives of metrics: their stability, which release has deprecated them, and when they go.

Rows S09, S10, S13. Source: https://kubernetes.io/docs/reference/using-api/deprecation-policy/#deprecating-a-metric;
k8s.io/component-base, metrics/metric.go; KEP-1209.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

_NONE: Final = "-"
_REASON: Final = "> "


class Stability(StrEnum):
    """How long one may count on a metric. Those of the process itself have none: nothing is promised."""

    INTERNAL = "INTERNAL"
    ALPHA = "ALPHA"
    BETA = "BETA"
    STABLE = "STABLE"
    NONE = ""


# For how many releases a metric is served with a notice once it is deprecated. Then it is hidden for one
# release, and after that it is gone. Those that need not be kept are served for one release, as in
# Kubernetes, so that somebody can see the notice.
DEPRECATED_RELEASES: Final[Mapping[Stability, int]] = MappingProxyType(
    {
        Stability.INTERNAL: 1,
        Stability.ALPHA: 1,
        Stability.BETA: 1,
        Stability.STABLE: 3,
        Stability.NONE: 1,
    }
)


class Stage(StrEnum):
    """What has become of a metric in a release."""

    CURRENT = "current"
    DEPRECATED = "deprecated"
    HIDDEN = "hidden"
    GONE = "gone"


class MetricLifecycle(NamedTuple):
    """A metric. kind: as in its TYPE line. deprecated: the minor release (of 1.x) that has deprecated it."""

    name: str
    kind: str
    stability: Stability
    labels: tuple[str, ...] = ()
    deprecated: int | None = None

    def stage(self, minor: int) -> Stage:
        """Returns what has become of it in release 1.`minor`."""
        if self.deprecated is None or minor < self.deprecated:
            return Stage.CURRENT
        hidden = self.deprecated + DEPRECATED_RELEASES[self.stability]
        if minor < hidden:
            return Stage.DEPRECATED
        return Stage.HIDDEN if minor == hidden else Stage.GONE

    def help_prefix(self, minor: int) -> str:
        """Returns what its help text begins with: `[STABLE] (Deprecated since 1.34.0) `."""
        prefix = f"[{self.stability}] " if self.stability else ""
        if self.deprecated is not None and self.deprecated <= minor:
            prefix += f"(Deprecated since 1.{self.deprecated}.0) "
        return prefix


@cache
def known_metrics() -> Mapping[str, MetricLifecycle]:
    """Returns all metrics that the server has, by their names."""
    found = [_parsed(line) for line in _lines("lifecycles.txt")]
    return MappingProxyType({each.name: each for each in found})


@cache
def not_served() -> Mapping[str, tuple[MetricLifecycle, ...]]:
    """Returns the metrics of kube-apiserver that the server does not have, by the reason."""
    groups: dict[str, list[MetricLifecycle]] = {}
    reason = ""
    for line in _lines("not_served.txt"):
        if line.startswith(_REASON):
            reason = line.removeprefix(_REASON)
        else:
            groups.setdefault(reason, []).append(_parsed(line))
    return MappingProxyType({reason: tuple(group) for reason, group in groups.items()})


def _lines(name: str) -> list[str]:
    text = pkgutil.get_data(__package__, name)
    assert text is not None
    return [line for line in text.decode().splitlines() if not line.startswith("#")]


def _parsed(line: str) -> MetricLifecycle:
    name, kind, stability, labels, *deprecated = line.split()
    return MetricLifecycle(
        name,
        kind,
        Stability.NONE if stability == _NONE else Stability(stability),
        () if labels == _NONE else tuple(labels.split(",")),
        int(deprecated[0]) if deprecated else None,
    )
