"""The text of /metrics, in Prometheus' exposition format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from apiserver.metrics.series import Family

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# Made in a fifth of a millisecond, and compressed in two: others have their turn between slices.
SLICE_BYTES: Final = 64 * 1024

# A sample with a whole number: kube-apiserver writes it without a fraction, and people search for that.
_WHOLE: Final = re.compile(rb"^([^#\n].* -?\d+)\.0$", re.MULTILINE)


class MetricsSource(Protocol):
    """What has counted something, or knows something. Families are for what may have many series."""

    def families(self) -> Iterable[Metric | Family]: ...


class _Collected(Collector):
    def __init__(self, *metrics: Metric) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


class Exposition:
    """Writes the metrics of all sources and those that prometheus-client has of every process."""

    def __init__(self, sources: Sequence[MetricsSource]) -> None:
        self._sources = sources
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def slices(self) -> Iterator[bytes]:
        """Yields all metrics in the exposition format, version 0.0.4, in pieces of some `SLICE_BYTES`.

        Each series is of one moment, which is not that of all.
        """
        pieces: list[str] = [_text(self._registry)]
        size = 0
        for source in self._sources:
            for family in source.families():
                for piece in _lines(family):
                    pieces.append(piece)
                    size += len(piece)
                    if size >= SLICE_BYTES:
                        yield "".join(pieces).encode()
                        pieces, size = [], 0
        yield "".join(pieces).encode()


def _lines(family: Metric | Family) -> Iterator[str]:
    if isinstance(family, Family):
        yield family.head
        yield from family.series
    else:
        yield _text(_Collected(family))


def _text(metrics: CollectorRegistry | _Collected) -> str:
    # It only collects.
    return _WHOLE.sub(rb"\1", generate_latest(metrics)).decode()
