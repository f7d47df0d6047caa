"""The declaration of each metric, from declarations.txt, and its stage in each release.

Requirements S09, S10 and S13. Source: https://kubernetes.io/docs/reference/using-api/deprecation-policy/#deprecating-a-metric;
k8s.io/component-base, metrics/metric.go; KEP-1209.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

_NONE: Final = "-"
_REASON: Final = "> "
_BUCKETS: Final = "buckets "


class MetricStability(StrEnum):
    """The stability of a metric. Metrics of the process itself have none: nothing is promised."""

    INTERNAL = "INTERNAL"
    ALPHA = "ALPHA"
    BETA = "BETA"
    STABLE = "STABLE"
    NONE = ""


# As the tables name them.
_STABILITIES: Final = {each.value or _NONE: each for each in MetricStability}
# The number of releases for which a deprecated metric is served with a notice. Then it is hidden for one
# release, and after that it is removed. Metrics without a guarantee are served for one release, as in
# Kubernetes, so that users can see the notice.
DEPRECATED_RELEASES: Final[Mapping[MetricStability, int]] = MappingProxyType(
    {
        MetricStability.INTERNAL: 1,
        MetricStability.ALPHA: 1,
        MetricStability.BETA: 1,
        MetricStability.STABLE: 3,
        MetricStability.NONE: 1,
    }
)


class MetricStage(StrEnum):
    """The stage of a metric's life in a release."""

    CURRENT = "current"
    DEPRECATED = "deprecated"
    HIDDEN = "hidden"
    GONE = "gone"


class Metric(NamedTuple):
    """The declaration of a metric. kind: as in its TYPE line.

    labels: in the order of their values. text: that of its HELP line.
    bounds: the upper bounds of its buckets, if it is a histogram.
    deprecated: the minor release (of 1.x) that deprecated it.
    """

    name: str
    kind: str
    stability: MetricStability
    labels: tuple[str, ...] = ()
    text: str = ""
    bounds: tuple[float, ...] = ()
    deprecated: int | None = None

    def stage(self, minor: int) -> MetricStage:
        """Returns the stage of the metric in release 1.`minor`."""
        if self.deprecated is None or minor < self.deprecated:
            return MetricStage.CURRENT
        hidden = self.deprecated + DEPRECATED_RELEASES[self.stability]
        if minor < hidden:
            return MetricStage.DEPRECATED
        return MetricStage.HIDDEN if minor == hidden else MetricStage.GONE

    def head(self, minor: int) -> str:
        """Returns its HELP and TYPE lines in release 1.`minor`, with its stability and deprecation."""
        stability = f"[{self.stability}] " if self.stability else ""
        if self.deprecated is not None and self.deprecated <= minor:
            stability += f"(Deprecated since 1.{self.deprecated}.0) "
        return f"# HELP {self.name} {stability}{self.text}\n# TYPE {self.name} {self.kind}\n"


def declared(name: str) -> Metric:
    """Returns a metric of the server. Raises KeyError if there is none of that name."""
    return known_metrics()[name]


@cache
def bounds_of(*names: str) -> tuple[float, ...]:
    """Returns the upper bounds of a histogram's buckets, or those that several histograms have in common."""
    if len(names) == 1:
        return declared(names[0]).bounds
    return tuple(sorted({bound for name in names for bound in declared(name).bounds}))


@cache
def known_metrics() -> Mapping[str, Metric]:
    """Returns all metrics of the server, by name."""
    found: dict[str, Metric] = {}
    buckets: dict[str, tuple[float, ...]] = {}
    lines = iter(_lines("declarations.txt"))
    for line in lines:
        if line.startswith(_BUCKETS):
            _, name, *bounds = line.split()
            buckets[name] = _bounds(bounds)
        else:
            metric = _parsed(line, next(lines).strip(), buckets)
            found[metric.name] = metric
    return MappingProxyType(found)


@cache
def not_served() -> Mapping[str, tuple[Metric, ...]]:
    """Returns the metrics of kube-apiserver that the server does not have, by reason."""
    groups: dict[str, list[Metric]] = {}
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
    return [line for line in text.decode().splitlines() if line and not line.startswith("#")]


def _parsed(line: str, text: str = "", buckets: Mapping[str, tuple[float, ...]] | None = None) -> Metric:
    name, kind, stability, labels, *more = line.split()
    options = dict(each.split("=") for each in more) if more else {}
    deprecated = options.get("deprecated")
    return Metric(
        name,
        kind,
        _STABILITIES[stability],
        () if labels == _NONE else tuple(labels.split(",")),
        text,
        buckets[options["buckets"]] if buckets and "buckets" in options else (),
        None if deprecated is None else int(deprecated.removeprefix("1.")),
    )


def _bounds(words: Sequence[str]) -> tuple[float, ...]:
    """Returns upper bounds, given as a list, or as a rule with the first bound and their number."""
    if words[0] not in ("exponential", "linear"):
        return tuple(map(float, words))
    first, step = float(words[1]), float(words[2])
    steps = range(int(words[3]))
    return tuple(first * step**i if words[0] == "exponential" else first + step * i for i in steps)
