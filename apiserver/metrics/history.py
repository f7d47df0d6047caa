"""The state of the history of all changes, as the recorder has left it when it last wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from apiserver.metrics.series import Family, single


class MeasuredRecorder(Protocol):
    """The recorder, as far as its state is shown. See `registry.history.recorder.Recorder`."""

    failure: Exception | None
    changes_total: int
    size_bytes: int
    gaps: int

    @property
    def dropped_total(self) -> int: ...
    def lag_s(self) -> float: ...


class HistoryMetrics:
    """The metrics of the history of a server that keeps one."""

    def __init__(self, recorder: MeasuredRecorder) -> None:
        self._recorder = recorder

    def families(self) -> Iterable[Family]:
        recorder = self._recorder
        yield single("apiserver_history_available", 1 if recorder.failure is None else 0)
        yield single("apiserver_history_changes_total", recorder.changes_total)
        yield single("apiserver_history_gaps", recorder.gaps)
        yield single("apiserver_history_lag_seconds", recorder.lag_s())
        yield single("apiserver_history_segments_dropped_total", recorder.dropped_total)
        yield single("apiserver_history_size_bytes", recorder.size_bytes)
