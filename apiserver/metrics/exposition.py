"""The text of /metrics, in Prometheus' exposition format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from apiserver.metrics.client_library import process_metrics, text_of
from apiserver.metrics.declarations import declared
from apiserver.metrics.registry import MetricRegistry
from apiserver.metrics.series import Family

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# Made in a tenth to half a millisecond, and compressed in one without a pause in between: others have their
# turn between slices.
SLICE_BYTES: Final = 32 * 1024
# A line takes its time, too, where it is added to others and nothing comes of it yet.
LINE_BYTES: Final = 128

# A sample with a whole number: kube-apiserver writes it without a fraction, and people search for that.
_WHOLE: Final = re.compile(rb"^([^#\n].* -?\d+)\.0$", re.MULTILINE)


class MetricsSource(Protocol):
    """What has counted something, or knows something. Families are for what may have many series."""

    def families(self) -> Iterable[Metric | Family]: ...


class Exposition:
    """Writes the metrics of all sources and those that prometheus-client has of every process."""

    def __init__(self, sources: Sequence[MetricsSource], metrics: MetricRegistry | None = None) -> None:
        """metrics: decides what is served; without it all of the default release is."""
        self._sources = sources
        self._metrics = metrics or MetricRegistry()

    def slices(self) -> Iterator[bytes]:
        """Yields all metrics in the exposition format, version 0.0.4, in pieces of some `SLICE_BYTES`.

        Each series is of one moment, which is not that of all.
        """
        self._metrics.warn()
        pieces: list[str] = []
        size = 0
        for family in self._families():
            for piece in self._metrics.lines(family):
                pieces.append(piece)
                size += max(len(piece), LINE_BYTES)
                if size >= SLICE_BYTES:
                    yield "".join(pieces).encode()
                    pieces, size = [], 0
        yield "".join(pieces).encode()

    def _families(self) -> Iterator[Family]:
        yield from map(_converted, process_metrics())
        for source in self._sources:
            for found in source.families():
                yield found if isinstance(found, Family) else _converted(found)


def _converted(metric: Metric) -> Family:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return Family(declared(name), [_text(metric).split("\n", 2)[2]])


def _text(metric: Metric) -> str:
    return _WHOLE.sub(rb"\1", text_of(metric)).decode()
