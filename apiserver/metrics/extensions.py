"""Metrics of extensions: calls of their functions, and the ends of their worker processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from apiserver.metrics.histograms import Histograms
from apiserver.metrics.series import Family, family

_DURATIONS: Final = "apiserver_extension_call_duration_seconds"


class ExtensionMetrics:
    """Counts and times the calls of functions of extensions, and counts the ends of workers.

    durations: of calls, by the extension and its function.
    """

    def __init__(self) -> None:
        self.durations = Histograms[tuple[str, str]](_DURATIONS)
        self._failures: Counter[tuple[str, str, str]] = Counter()
        self._overruns: Counter[tuple[str, str]] = Counter()
        self._ignored: Counter[tuple[str, str]] = Counter()
        self._worker_ends: Counter[tuple[str, str]] = Counter()

    def add(self, extension: str) -> None:
        """Show an extension from now on, with a zero."""
        self._worker_ends[extension, ""] += 0

    def called(self, extension: str, hook: str, seconds: float, failure: str) -> None:
        """Count a call. failure: one of `host.runner.Failure`; empty if it has succeeded."""
        self.durations[extension, hook].observe(seconds)
        if failure:
            self.failed(extension, hook, failure)

    def failed(self, extension: str, hook: str, failure: str) -> None:
        """Count a call that has failed, or whose result cannot be used. failure: see `called`."""
        self._failures[extension, hook, failure] += 1

    def ignored(self, extension: str, hook: str) -> None:
        """Count a failure after which the write went on."""
        self._ignored[extension, hook] += 1

    def overran(self, extension: str, hook: str) -> None:
        """Count a call of an inline function that has taken longer than its time."""
        self._overruns[extension, hook] += 1

    def worker_ended(self, extension: str, hook: str) -> None:
        """Count the end of a worker. hook: the function that has ended it; empty if unknown."""
        self._worker_ends[extension, hook] += 1

    def families(self) -> Iterable[Family]:
        yield family(_DURATIONS, list(self.durations.items()))
        yield family("apiserver_extension_failures_total", list(self._failures.items()))
        yield family("apiserver_extension_ignored_failures_total", list(self._ignored.items()))
        yield family("apiserver_extension_inline_overruns_total", list(self._overruns.items()))
        yield family("apiserver_extension_worker_ends_total", list(self._worker_ends.items()))
