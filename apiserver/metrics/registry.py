"""Decides which metrics are served, with which notice in their help texts and which values of labels.

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

from apiserver.metrics.lifecycles import MetricLifecycle, Stability, Stage, known_metrics
from apiserver.metrics.series import Family, number_text, values
from apiserver.releases.emulation import DEFAULT_RELEASE, EmulatedRelease

log = logging.getLogger(__name__)

# Stands for all values of a label that are not allowed.
UNEXPECTED: Final = "unexpected"
_LABEL: Final = re.compile(r'([a-zA-Z_]\w*)="((?:\\.|[^"\\])*)"')


@dataclass(frozen=True, slots=True)
class MetricsConfiguration:
    """What is served of the metrics.

    shows_hidden: hidden metrics are served, too.
    disabled: the names of metrics that are not served, hidden or not.
    allowed_labels: of each metric and label, the values that are told; others become `unexpected`.
    """

    shows_hidden: bool = False
    disabled: frozenset[str] = frozenset()
    allowed_labels: Mapping[str, Mapping[str, frozenset[str]]] = field(
        default_factory=lambda: MappingProxyType({})
    )


NO_CONFIGURATION: Final = MetricsConfiguration()


class MetricRegistry:
    """Writes the lines of metrics as they are served, and counts what is served and what is not.

    release: whose metrics they are.
    lives: of all metrics, by name. Those that it does not have are served as they are.
    """

    def __init__(
        self,
        configuration: MetricsConfiguration = NO_CONFIGURATION,
        release: EmulatedRelease = DEFAULT_RELEASE,
        lives: Mapping[str, MetricLifecycle] | None = None,
    ) -> None:
        self._configuration, self._release = configuration, release
        self._lives = known_metrics() if lives is None else lives
        self._hidden = frozenset(name for name, life in self._lives.items() if self._is_hidden(life))
        self._has_warned = False

    def serves(self, name: str) -> bool:
        return name not in self._configuration.disabled and name not in self._hidden

    def lines(self, name: str, head: str, series: Iterable[str]) -> Iterator[str]:
        """Yields the lines of a metric that is served. head: its HELP and TYPE lines."""
        life = self._lives.get(name)
        prefix = "" if life is None else life.help_prefix(self._release.minor)
        yield head.replace(f"# HELP {name} ", f"# HELP {name} {prefix}", 1)
        allowed = self._configuration.allowed_labels.get(name)
        yield from series if allowed is None else self._constrained(series, allowed)

    def warn(self) -> None:
        """Tell in the log, once, which metrics are deprecated: somebody reads them."""
        if not self._has_warned:
            self._has_warned = True
            for name, life in self._lives.items():
                if life.stage(self._release.minor) is not Stage.CURRENT and self.serves(name):
                    log.warning("the metric %s is deprecated since 1.%d", name, life.deprecated)

    def families(self) -> Iterable[Family]:
        """Yields the metrics about metrics."""
        served = Counter(
            (life.stability, "" if life.deprecated is None else f"1.{life.deprecated}.0")
            for name, life in self._lives.items()
            if life.stability is not Stability.NONE and self.serves(name)
        )
        yield values(
            "registered_metrics_total",
            "counter",
            "Metrics that are served, by their stability and the release that has deprecated them.",
            ("stability_level", "deprecated_version"),
            list(served.items()),
        )
        yield values(
            "hidden_metrics_total",
            "counter",
            "Metrics that are hidden, as they have been deprecated for long.",
            (),
            [((), len(self._hidden))],
        )
        yield values(
            "disabled_metrics_total",
            "counter",
            "Metrics that --disabled-metrics names.",
            (),
            [((), len(self._configuration.disabled))],
        )
        release = self._release
        yield values(
            "version_info",
            "gauge",
            "The release that is served, and the oldest one that what is stored is readable to.",
            ("binary", "component", "emulation", "min_compat"),
            [((str(release), "kube", str(release), f"1.{release.min_compatible}"), 1)],
        )

    def _is_hidden(self, life: MetricLifecycle) -> bool:
        stage = life.stage(self._release.minor)
        return stage is Stage.GONE or (stage is Stage.HIDDEN and not self._configuration.shows_hidden)

    def _constrained(self, series: Iterable[str], allowed: Mapping[str, frozenset[str]]) -> Iterator[str]:
        """Yields the series, those added up that differ in values only which are not allowed.

        There is an empty piece for each line that is added up, so that others have their turn meanwhile.
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
