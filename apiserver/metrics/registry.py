"""Selects the metrics that are served, their help texts, and the allowed values of labels.

Source: k8s.io/component-base, metrics/{metric,options,registry}.go.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from apiserver.meta.releases.emulation import DEFAULT_RELEASE, EmulatedRelease
from apiserver.metrics.declarations import Metric, MetricStability, MetricStage, known_metrics
from apiserver.metrics.series import Family, family, number_text, single

log = logging.getLogger(__name__)

# Stands for all values of a label that are not allowed.
UNEXPECTED: Final = "unexpected"
_LABEL: Final = re.compile(r'([a-zA-Z_]\w*)="((?:\\.|[^"\\])*)"')


@dataclass(frozen=True, slots=True)
class MetricsConfiguration:
    """The selection of metrics.

    shows_hidden: whether hidden metrics are served, too.
    disabled: the names of metrics that are not served, hidden or not.
    allowed_labels: for each metric and label, the values that are shown; others become `unexpected`.
    """

    shows_hidden: bool = False
    disabled: frozenset[str] = frozenset()
    allowed_labels: Mapping[str, Mapping[str, frozenset[str]]] = field(
        default_factory=lambda: MappingProxyType({})
    )


NO_CONFIGURATION: Final = MetricsConfiguration()


class MetricRegistry:
    """Writes the lines of the metrics that are served, and counts the metrics served and left out.

    release: the release of the metrics. metrics: all of them, by name.
    """

    def __init__(
        self,
        configuration: MetricsConfiguration = NO_CONFIGURATION,
        release: EmulatedRelease = DEFAULT_RELEASE,
        metrics: Mapping[str, Metric] | None = None,
    ) -> None:
        self._configuration, self._release = configuration, release
        self._metrics = known_metrics() if metrics is None else metrics
        self._hidden = frozenset(name for name, each in self._metrics.items() if self._is_hidden(each))
        self._has_warned = False

    def lines(self, family: Family) -> Iterator[str]:
        """Yields the lines of a metric; none if it is not served."""
        name = family.name
        if self._serves(name):
            yield family.metric.head(self._release.minor)
            allowed = self._configuration.allowed_labels.get(name)
            yield from family.series if allowed is None else self._constrained(family.series, allowed)

    def warn(self) -> None:
        """Log, once, which deprecated metrics are served."""
        if not self._has_warned:
            self._has_warned = True
            for name, metric in self._metrics.items():
                if metric.stage(self._release.minor) is not MetricStage.CURRENT and self._serves(name):
                    log.warning("the metric %s has been deprecated since 1.%d", name, metric.deprecated)

    def families(self) -> Iterable[Family]:
        """Yields the metrics about metrics."""
        served = Counter(
            (metric.stability, "" if metric.deprecated is None else f"1.{metric.deprecated}.0")
            for name, metric in self._metrics.items()
            if metric.stability is not MetricStability.NONE and self._serves(name)
        )
        yield family("registered_metrics_total", list(served.items()))
        yield single("hidden_metrics_total", len(self._hidden))
        yield single("disabled_metrics_total", len(self._configuration.disabled))
        release = self._release
        versions = (str(release), "kube", str(release), f"1.{release.min_compatible}")
        yield family("version_info", [(versions, 1)])

    def _serves(self, name: str) -> bool:
        return name not in self._configuration.disabled and name not in self._hidden

    def _is_hidden(self, metric: Metric) -> bool:
        stage = metric.stage(self._release.minor)
        return stage is MetricStage.GONE or (
            stage is MetricStage.HIDDEN and not self._configuration.shows_hidden
        )

    def _constrained(self, series: Iterable[str], allowed: Mapping[str, frozenset[str]]) -> Iterator[str]:
        """Yields the series; those that only differ in values that are not allowed are added up.

        It yields an empty piece for each line that is added up, so that other tasks have their turn
        meanwhile.
        """

        def value(found: re.Match[str]) -> str:
            known = allowed.get(found[1])
            return found[0] if known is None or found[2] in known else f'{found[1]}="{UNEXPECTED}"'

        sums: dict[str, float] = {}
        for piece in filter(None, series):
            # Values of labels may have characters that Python takes for ends of lines.
            for line in piece.removesuffix("\n").split("\n"):
                labels, _, number = line.rpartition(" ")
                told = _LABEL.sub(value, labels)
                if told == labels:
                    yield f"{line}\n"
                    continue
                amount = float(number)
                sums[told] = sums.get(told, 0) + (int(amount) if amount.is_integer() else amount)
                yield ""
        yield from (f"{labels} {number_text(amount)}\n" for labels, amount in sums.items())
