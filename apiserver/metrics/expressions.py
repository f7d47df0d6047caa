"""Durations of the validation rules of definitions, which are CEL expressions.

As in Kubernetes, expressions of policies and webhooks are not included: these have separate metrics. Source:
k8s.io/apiserver, pkg/cel/metrics; k8s.io/apiextensions-apiserver, pkg/apiserver/schema/cel.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Lock
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, single

_COMPILATIONS: Final = "apiserver_cel_compilation_duration_seconds"
_EVALUATIONS: Final = "apiserver_cel_evaluation_duration_seconds"


class ExpressionMetrics:
    """Times the expressions of validation rules, as an `ExpressionTimer`.

    An evaluation that stopped, to be repeated in a thread, is not counted.
    """

    now = staticmethod(time.perf_counter)

    def __init__(self) -> None:
        self._compilations, self._evaluations = Histogram.of(_COMPILATIONS), Histogram.of(_EVALUATIONS)
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
        yield single(_COMPILATIONS, self._compilations)
        yield single(_EVALUATIONS, self._evaluations)
