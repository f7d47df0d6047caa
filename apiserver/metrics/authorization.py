"""Metrics of authorization: decisions of authorizers, and calls of authorization webhooks.

Source: k8s.io/apiserver, pkg/authorization/{metrics,cel}, plugin/pkg/authorizer/webhook/metrics and
pkg/server/options/authorizationconfig/metrics.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from apiserver.auth.authz.attributes import ALLOW, Decision, Verdict
from apiserver.auth.authz.chain import DecisionCount
from apiserver.metrics.configuration_reloads import ConfigurationReloads, hash_of
from apiserver.metrics.histograms import Histogram, Histograms
from apiserver.metrics.request_filters import FILTER_DURATIONS
from apiserver.metrics.series import Family, family

_ATTEMPTS: Final = "authorization_duration_seconds"
_WEBHOOK_CALLS: Final = "apiserver_authorization_webhook_duration_seconds"
_CONDITIONS: Final = "apiserver_authorization_match_condition_evaluation_seconds"
_REFUSALS: Final = {Decision.DENY: "denied", Decision.NO_OPINION: "no-opinion"}
_ALLOWED: Final = "allowed"
_RESULTS: Final = (_ALLOWED, *_REFUSALS.values(), "error")
_WEBHOOK: Final = "Webhook"


class AuthorizationMetrics:
    """Counts decisions of authorizers and calls of authorization webhooks.

    The names of authorizers come from a configuration file, which bounds the series.
    counts: the decisions of each authorizer; set when there are authorizers.
    """

    def __init__(self, server_id: str, clock: Callable[[], float] = time.time) -> None:
        """clock: seconds since 1970."""
        self.configuration = ConfigurationReloads("authorization", hash_of(server_id.encode()), clock)
        self.counts: Callable[[], Sequence[DecisionCount]] = lambda: ()
        self._attempts = {result: Histogram.of(_ATTEMPTS, FILTER_DURATIONS) for result in _RESULTS}
        self._durations = Histograms[tuple[str, str]](_WEBHOOK_CALLS)
        self._failed_open: Counter[tuple[str, str]] = Counter()
        self._conditions = Histograms[str](_CONDITIONS)
        self._condition_errors: Counter[str] = Counter()
        self._exclusions: Counter[str] = Counter()

    # ---- requests

    def decided(self, verdict: Verdict, seconds: float) -> None:
        """Count a request that was authorized, or refused."""
        if verdict.decision is ALLOW:
            self._attempts[_ALLOWED].observe(seconds)
        elif verdict.error:
            self._attempts["error"].observe(seconds)
        else:
            self._attempts[_REFUSALS[verdict.decision]].observe(seconds)

    def durations(self) -> Iterable[Histogram]:
        """Returns the durations of authorization of allowed requests, with the bounds of filters."""
        return (self._attempts[_ALLOWED],)

    # ---- webhooks: an `AuthorizerObserver` of their authorizers

    def asked(self, name: str, result: str, seconds: float) -> None:
        self._durations[name, result].observe(seconds)

    def failed_open(self, name: str, result: str) -> None:
        self._failed_open[name, result] += 1

    def matched(self, name: str, seconds: float, *, is_excluded: bool, is_error: bool) -> None:
        self._conditions[name].observe(seconds)
        self._exclusions[name] += is_excluded
        self._condition_errors[name] += is_error

    # ---- exposition

    def families(self) -> Iterable[Family]:
        attempts = [((result,), each) for result, each in self._attempts.items() if each.count]
        yield family("authorization_attempts_total", [(labels, each.count) for labels, each in attempts])
        yield family(_ATTEMPTS, attempts)
        decisions = [
            ((each.type, each.name, decision), count)
            for each in self.counts()
            for decision, count in (("allowed", each.allowed), ("denied", each.denied))
            if count
        ]
        yield family("apiserver_authorization_decisions_total", decisions)
        calls = list(self._durations.items())
        yield family(
            "apiserver_authorization_webhook_evaluations_total", [(of, each.count) for of, each in calls]
        )
        yield family(_WEBHOOK_CALLS, calls)
        yield family(
            "apiserver_authorization_webhook_evaluations_fail_open_total", list(self._failed_open.items())
        )
        for name, by_webhook in (
            (_CONDITIONS, self._conditions),
            ("apiserver_authorization_match_condition_evaluation_errors_total", self._condition_errors),
            ("apiserver_authorization_match_condition_exclusions_total", self._exclusions),
        ):
            yield family(name, [((_WEBHOOK, each), value) for each, value in by_webhook.items()])
        yield from self.configuration.families()
