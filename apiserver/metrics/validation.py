"""What declarative validation finds, under Kubernetes' names.

Source: k8s.io/apiserver, pkg/validation/metrics.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from prometheus_client.core import CounterMetricFamily, Metric


class ValidationMetrics:
    """mismatches: errors that only the checks, or only the declared rules of a type have found."""

    def __init__(self) -> None:
        self._lock = Lock()  # Large documents are validated beside the event loop.
        self.mismatches = self.panics = 0

    def count_mismatches(self, count: int) -> None:
        with self._lock:
            self.mismatches += count

    def count_panic(self) -> None:
        with self._lock:
            self.panics += 1

    def families(self) -> Iterable[Metric]:
        prefix = "apiserver_validation_declarative_validation"
        yield CounterMetricFamily(
            f"{prefix}_mismatch",
            "Number of times declarative validation results differed from handwritten validation results.",
            value=self.mismatches,
        )
        yield CounterMetricFamily(
            f"{prefix}_panic",
            "Number of times declarative validation has panicked during validation.",
            value=self.panics,
        )
