"""The state of the history of all changes, as the recorder has left it when it last wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from apiserver.metrics.series import Family, single


class MeasuredRecorder(Protocol):
    """The recorder, as far as its state is shown. See `apiserver.registry.history.recorder.Recorder`."""

    failure: Exception | None
    changes_total: int
    size_bytes: int
    gaps: int

    @property
    def dropped_total(self) -> int: ...
    def lag_s(self) -> float: ...


class HistoryMetrics:
    """The metrics of the history. recorder: None if the server keeps none; then they have no series."""

    def __init__(self, recorder: MeasuredRecorder | None) -> None:
        self._recorder = recorder

    def families(self) -> Iterable[Family]:
        values = _NAMES if self._recorder is None else _values(self._recorder)
        for name, value in values.items():
            yield single(f"apiserver_history_{name}", value)


_NAMES: Final[Mapping[str, float | None]] = MappingProxyType(
    dict.fromkeys(
        ("available", "changes_total", "gaps", "lag_seconds", "segments_dropped_total", "size_bytes")
    )
)


def _values(recorder: MeasuredRecorder) -> Mapping[str, float | None]:
    return {
        "available": 1 if recorder.failure is None else 0,
        "changes_total": recorder.changes_total,
        "gaps": recorder.gaps,
        "lag_seconds": recorder.lag_s(),
        "segments_dropped_total": recorder.dropped_total,
        "size_bytes": recorder.size_bytes,
    }
