"""Metrics of admission webhooks: durations and outcomes of calls.

Source: k8s.io/apiserver, pkg/admission/metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from apiserver.meta.errors import ApiError, InternalError
from apiserver.metrics.histograms import Histograms
from apiserver.metrics.match_conditions import WEBHOOK, MatchConditionMetrics
from apiserver.metrics.series import Family, family

_DURATIONS: Final = "apiserver_admission_webhook_admission_duration_seconds"
# Webhooks have names that clients give; of so many there are series, all others count as one.
NAMES_MAX: Final = 500
OTHER: Final = "other"
# Codes above are counted as one, so that a webhook cannot make series.
CODE_MAX: Final = 600


class WebhookMetrics:
    """Counts and times the calls of all webhooks. The step is `admit` or `validating`."""

    def __init__(self, conditions: MatchConditionMetrics | None = None) -> None:
        """conditions: the counts for conditions of all policies and webhooks, which are separate metrics."""
        self._conditions = conditions or MatchConditionMetrics()
        self._durations = Histograms[tuple[str, str, str, str]](_DURATIONS)
        self._requests: Counter[tuple[str, str, str, str, str]] = Counter()
        self._rejections: Counter[tuple[str, str, str, str, str]] = Counter()
        self._failed_open: Counter[tuple[str, str]] = Counter()
        self._names: set[str] = set()

    def observe(
        self, webhook: str, step: str, operation: str, seconds: float, refusal: ApiError | None
    ) -> None:
        """Count a call. refusal: the error with which it refuses the write."""
        name, rejected = self._label(webhook), "false" if refusal is None else "true"
        self._durations[name, step, operation, rejected].observe(seconds)
        code = "200" if refusal is None else str(min(refusal.code, CODE_MAX))
        self._requests[name, step, operation, code, rejected] += 1
        if refusal is not None:
            why = "calling_webhook_error" if isinstance(refusal, InternalError) else "no_error"
            self._rejections[name, step, operation, why, code] += 1

    def failed_open(self, webhook: str, step: str) -> None:
        """Count a write that passed although a webhook failed, because its failure policy is Ignore."""
        self._failed_open[self._label(webhook), step] += 1

    def observe_conditions(
        self, webhook: str, step: str, operation: str, seconds: float, *, errors: int, is_excluded: bool
    ) -> None:
        """Count an evaluation of the conditions of a webhook. errors: the number of conditions that failed.

        is_excluded: whether the webhook is not called.
        """
        self._conditions.evaluated(webhook, WEBHOOK, step, operation, seconds=seconds, errors=errors)
        if is_excluded:
            self._conditions.excluded(webhook, WEBHOOK, step, operation)

    def _label(self, webhook: str) -> str:
        if webhook not in self._names:
            if len(self._names) >= NAMES_MAX:
                return OTHER
            self._names.add(webhook)
        return webhook

    def families(self) -> Iterable[Family]:
        yield family(_DURATIONS, list(self._durations.items()))
        yield family("apiserver_admission_webhook_request_total", list(self._requests.items()))
        yield family("apiserver_admission_webhook_rejection_count", list(self._rejections.items()))
        yield family("apiserver_admission_webhook_fail_open_count", list(self._failed_open.items()))
