"""What declarative validation finds, under Kubernetes' names.

Source: k8s.io/apiserver, pkg/validation/metrics.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING

from apiserver.metrics.client_library import counter_family

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class ValidationMetrics:
    """mismatches: errors that only the checks, or only the declared rules of a type have found.

    They are counted by the kind and the operation, too, which are those of built-in types.
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

    def families(self) -> Iterable[Metric]:
        prefix = "apiserver_validation_declarative_validation"
        yield counter_family(
            f"{prefix}_mismatch",
            "Number of times declarative validation results differed from handwritten validation results.",
            value=self.mismatches,
        )
        discrepancies = counter_family(
            f"{prefix}_parity_discrepancies",
            "Number of discrepancies between declarative and handwritten validation, by kind and operation.",
            labels=("validation_identifier",),
        )
        for identifier, count in list(self._mismatches.items()):
            discrepancies.add_metric((identifier,), count)
        yield discrepancies
        yield counter_family(
            f"{prefix}_panic",
            "Number of times declarative validation has panicked during validation.",
            value=self.panics,
        )
