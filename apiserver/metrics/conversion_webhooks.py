"""How long conversion webhooks of definitions take, and what comes of asking them.

Source of names: k8s.io/apiextensions-apiserver, pkg/apiserver/conversion/metrics.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, histogram_family, values

# Seconds.
_CALL_BUCKETS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60)
_CONVERSION_BUCKETS: Final = tuple(0.001 * 2**power for power in range(15))
# Of so many definitions and their versions there are series, all others count as one: anybody may make them.
SERIES_MAX: Final = 500
OTHER: Final = "other"


class ConversionWebhookMetrics:
    """Counts calls of all webhooks, and times the conversions of each definition."""

    def __init__(self) -> None:
        # By the reason of the failure, which is empty after a success.
        self._calls: dict[str, Histogram] = {}
        # By the definition's name, both versions, and whether it has succeeded.
        self._conversions: dict[tuple[str, str, str, str], Histogram] = {}

    def called(self, seconds: float, failure: str = "") -> None:
        """Count a call. failure: one of `conversion_reviews.WebhookFailure`; empty if it has succeeded."""
        durations = self._calls.get(failure)
        if durations is None:
            durations = self._calls[failure] = Histogram(_CALL_BUCKETS)
        durations.observe(seconds)

    def converted(
        self, definition: str, versions: tuple[str, str], seconds: float, *, succeeded: bool
    ) -> None:
        """Count a conversion, which may have taken several calls. versions: from which to which one."""
        key = (definition, *versions, "true" if succeeded else "false")
        durations = self._conversions.get(key)
        if durations is None:
            if len(self._conversions) >= SERIES_MAX:
                key = (OTHER, OTHER, OTHER, key[-1])
            durations = self._conversions.setdefault(key, Histogram(_CONVERSION_BUCKETS))
        durations.observe(seconds)

    def families(self) -> Iterable[Family]:
        labels = ("result", "failure_type")
        calls = [
            (("failure" if failure else "success", failure), durations)
            for failure, durations in self._calls.items()
        ]
        yield values(
            "apiserver_conversion_webhook_request_total",
            "counter",
            "Calls of conversion webhooks, by their result and the kind of failure.",
            labels,
            [(each, durations.count) for each, durations in calls],
        )
        yield histogram_family(
            "apiserver_conversion_webhook_duration_seconds",
            "How long calls of conversion webhooks took.",
            labels,
            calls,
        )
        yield histogram_family(
            "apiserver_crd_conversion_webhook_duration_seconds",
            "How long conversions by the webhook of a definition took.",
            ("crd_name", "from_version", "to_version", "succeeded"),
            list(self._conversions.items()),
        )
