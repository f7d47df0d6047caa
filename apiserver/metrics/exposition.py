"""The text of /metrics, in Prometheus' exposition format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from apiserver.metrics.process import process_families
from apiserver.metrics.registry import MetricRegistry
from apiserver.metrics.series import Family

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# Made in a tenth to half a millisecond, and compressed in one without a pause in between: others have their
# turn between slices.
SLICE_BYTES: Final = 32 * 1024
# A line takes its time, too, where it is added to others and nothing comes of it yet.
LINE_BYTES: Final = 128


class MetricsSource(Protocol):
    """A source of metrics."""

    def families(self) -> Iterable[Family]: ...


class Exposition:
    """Writes the metrics of all sources, and those that every process has."""

    def __init__(self, sources: Sequence[MetricsSource], metrics: MetricRegistry | None = None) -> None:
        """metrics: selects the metrics that are served; without it, all of the default release."""
        self._sources = sources
        self._metrics = metrics or MetricRegistry()

    def slices(self) -> Iterator[bytes]:
        """Yields all metrics in the exposition format, version 0.0.4, in pieces of some `SLICE_BYTES`.

        Each series is consistent in itself, but series are read at different times.
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
        yield from process_families()
        for source in self._sources:
            yield from source.families()
