"""What a server uses of prometheus-client, which is imported by its first scrape: no start waits for that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


def counter_family(
    name: str, documentation: str, value: float | None = None, labels: Sequence[str] | None = None
) -> CounterMetricFamily:
    """Returns counters, of one name without `_total`. value: of the only one, if there are no labels."""
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(name, documentation, value, labels)


def gauge_family(
    name: str, documentation: str, value: float | None = None, labels: Sequence[str] | None = None
) -> GaugeMetricFamily:
    """Returns gauges, of one name. value: of the only one, if there are no labels."""
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, documentation, value, labels)


def is_imported() -> bool:
    """Tells whether the other functions import nothing more."""
    return bool(_process_collectors.cache_info().currsize)


def import_all() -> None:
    """Import what the others need: 10 to 25 ms, better not in an event loop."""
    _process_collectors()


def process_metrics() -> Iterable[Metric]:
    """Returns what prometheus-client knows of every process, as it is now."""
    return _process_collectors().collect()


@cache
def _process_collectors() -> CollectorRegistry:
    from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry

    registry = CollectorRegistry()
    registry.register(PROCESS_COLLECTOR)
    registry.register(PLATFORM_COLLECTOR)
    return registry


class _Collected:
    """The one method of a collector that writing it out takes."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


def text_of(metric: Metric) -> bytes:
    """Returns a family in the exposition format, version 0.0.4."""
    from prometheus_client import generate_latest

    return generate_latest(_Collected(metric))
