"""/metrics/slis: results of the checks of /livez, /readyz and /healthz, by name.

They have a separate path, so that a monitor can read them often. With several workers, each counts the
requests that it served. Source: k8s.io/component-base, metrics/prometheus/slis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

_GAUGE: Final = "kubernetes_healthcheck"
_COUNTER: Final = "kubernetes_healthchecks_total"
_STARTED: Final = "process_start_time_seconds"


class HealthCheckMetrics:
    """Counts the results of health checks, by name. started_at: seconds since 1970."""

    def __init__(self, started_at: float) -> None:
        self._started_at = started_at
        # By name and endpoint; the counter by status, too.
        self._last: dict[tuple[str, str], bool] = {}
        self._total: Counter[tuple[str, str, str]] = Counter()

    def observe(self, endpoint: str, reasons: Mapping[str, str]) -> None:
        """Count the checks of one response. reasons: of failures, by the name of the check; empty if it
        passed.
        """
        for name, reason in reasons.items():
            self._last[name, endpoint] = not reason
            self._total[name, "error" if reason else "success", endpoint] += 1

    def lines(self) -> Iterator[str]:
        yield from _head(_GAUGE, "STABLE", "gauge", "This metric records the result of a single healthcheck.")
        for (name, endpoint), has_passed in sorted(self._last.items()):
            yield f'{_GAUGE}{{name="{name}",type="{endpoint}"}} {int(has_passed)}\n'
        yield from _head(_COUNTER, "STABLE", "counter", "This metric records the results of all healthcheck.")
        for (name, status, endpoint), count in sorted(self._total.items()):
            yield f'{_COUNTER}{{name="{name}",status="{status}",type="{endpoint}"}} {count}\n'
        about = "Start time of the process since unix epoch in seconds."
        yield from _head(_STARTED, "ALPHA", "gauge", about)
        yield f"{_STARTED} {self._started_at:.2f}\n"


def _head(name: str, stability: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} [{stability}] {about}\n"
    yield f"# TYPE {name} {kind}\n"
