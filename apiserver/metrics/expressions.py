"""How long the validation rules of definitions take, which are CEL expressions.

As in Kubernetes the expressions of policies and webhooks are not among them: these have durations of their
own. Source: k8s.io/apiserver, pkg/cel/metrics; k8s.io/apiextensions-apiserver, pkg/apiserver/schema/cel.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Lock
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, histogram_family

# prometheus-client's of Go, as kube-apiserver names none. Seconds.
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class ExpressionMetrics:
    """An `ExpressionTimer`: what has given up, to be done again in a thread, is not counted."""

    now = staticmethod(time.perf_counter)

    def __init__(self) -> None:
        self._compilations, self._evaluations = Histogram(_BUCKETS), Histogram(_BUCKETS)
        self._lock = Lock()  # Large schemas are compiled, and large objects validated, beside the event loop.

    def compiled(self, since: float) -> None:
        self._observe(self._compilations, since)

    def evaluated(self, since: float) -> None:
        self._observe(self._evaluations, since)

    def _observe(self, durations: Histogram, since: float) -> None:
        seconds = time.perf_counter() - since
        with self._lock:
            durations.observe(seconds)

    def families(self) -> Iterable[Family]:
        yield histogram_family(
            "apiserver_cel_compilation_duration_seconds",
            "How long it took to compile the validation rules of one schema in a definition.",
            (),
            [((), self._compilations)],
        )
        yield histogram_family(
            "apiserver_cel_evaluation_duration_seconds",
            "How long it took to evaluate all validation rules of a definition for one object.",
            (),
            [((), self._evaluations)],
        )
