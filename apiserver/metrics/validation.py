"""Metrics of declarative validation, under Kubernetes' names.

Source: k8s.io/apiserver, pkg/validation/metrics.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from threading import Lock

from apiserver.metrics.series import Family, family, single


class ValidationMetrics:
    """Counts mismatches between checks and declared rules of types, and rules that failed.

    mismatches: errors that only the checks, or only the declared rules of a type found.
    They are also counted by kind and operation; only built-in types have them.
    """

    def __init__(self) -> None:
        self._lock = Lock()  # Large documents are validated beside the event loop.
        self._mismatches: Counter[str] = Counter()
        self.panics = 0

    @property
    def mismatches(self) -> int:
        return self._mismatches.total()

    def count_mismatches(self, identifier: str, count: int) -> None:
        with self._lock:
            self._mismatches[identifier] += count

    def count_panic(self) -> None:
        with self._lock:
            self.panics += 1

    def families(self) -> Iterable[Family]:
        yield single("apiserver_validation_declarative_validation_mismatch_total", self.mismatches)
        mismatches = list(self._mismatches.items())
        yield family(
            "apiserver_validation_declarative_validation_parity_discrepancies_total",
            [((identifier,), count) for identifier, count in mismatches],
        )
        yield single("apiserver_validation_declarative_validation_panic_total", self.panics)
