"""Metrics of conversion webhooks of definitions: durations and outcomes.

Source of names: k8s.io/apiextensions-apiserver, pkg/apiserver/conversion/metrics.go.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from apiserver.metrics.histograms import Histograms
from apiserver.metrics.series import Family, family

_CALLS: Final = "apiserver_conversion_webhook_duration_seconds"
_CONVERSIONS: Final = "apiserver_crd_conversion_webhook_duration_seconds"
# Of so many definitions and their versions there are series, all others count as one: anybody may make them.
SERIES_MAX: Final = 500
OTHER: Final = "other"


class ConversionWebhookMetrics:
    """Counts calls of all webhooks, and times the conversions of each definition."""

    def __init__(self) -> None:
        # By the reason of the failure, which is empty after a success.
        self._calls = Histograms[str](_CALLS)
        # By the definition's name, both versions, and whether it has succeeded.
        self._conversions = Histograms[tuple[str, str, str, str]](_CONVERSIONS)

    def called(self, seconds: float, failure: str = "") -> None:
        """Count a call. failure: one of `conversion_reviews.WebhookFailure`; empty if it succeeded."""
        self._calls[failure].observe(seconds)

    @contextmanager
    def conversion(self, definition: str, source: str, target: str) -> Iterator[None]:
        """Counts and times a conversion between two apiVersions, which may take several calls, while in the
        context. It has failed if an exception leaves the context.
        """
        began, succeeded = time.perf_counter(), False
        try:
            yield
            succeeded = True
        finally:
            versions = (source.rpartition("/")[2], target.rpartition("/")[2])
            self.converted(definition, versions, time.perf_counter() - began, succeeded=succeeded)

    def converted(
        self, definition: str, versions: tuple[str, str], seconds: float, *, succeeded: bool
    ) -> None:
        """Count a conversion. versions: the old and the new one."""
        key = (definition, *versions, "true" if succeeded else "false")
        if key not in self._conversions and len(self._conversions) >= SERIES_MAX:
            key = (OTHER, OTHER, OTHER, key[-1])
        self._conversions[key].observe(seconds)

    def families(self) -> Iterable[Family]:
        calls = [
            (("failure" if failure else "success", failure), durations)
            for failure, durations in self._calls.items()
        ]
        yield family("apiserver_conversion_webhook_request_total", [(of, each.count) for of, each in calls])
        yield family(_CALLS, calls)
        yield family(_CONVERSIONS, list(self._conversions.items()))
