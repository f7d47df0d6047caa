"""What authorizers decide, and how webhooks among them do.

Source: k8s.io/apiserver, pkg/authorization/{metrics,cel}, plugin/pkg/authorizer/webhook/metrics and
pkg/server/options/authorizationconfig/metrics.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from apiserver.authz.attributes import ALLOW, Decision, DecisionCount, Verdict
from apiserver.metrics.histograms import Histogram
from apiserver.metrics.request_filters import with_filter_buckets
from apiserver.metrics.series import Family, histogram_family, values

# Seconds.
_WEBHOOK_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_CONDITION_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)
_ATTEMPT_BUCKETS: Final = tuple(0.001 * 2**exponent for exponent in range(15))
_OBSERVED_BUCKETS: Final = with_filter_buckets(_ATTEMPT_BUCKETS)
_REFUSALS: Final = {Decision.DENY: "denied", Decision.NO_OPINION: "no-opinion"}
_ALLOWED: Final = "allowed"
_RESULTS: Final = (_ALLOWED, *_REFUSALS.values(), "error")
_WEBHOOK: Final = "Webhook"
_CONFIGURATION: Final = "apiserver_authorization_config_controller_"


class AuthorizationMetrics:
    """The names of authorizers come from a file of the server's own: it bounds the series.

    counts: the decisions of each authorizer; set when there are authorizers.
    """

    def __init__(self, server_id: str, clock: Callable[[], float] = time.time) -> None:
        """clock: seconds since 1970."""
        self._server, self._clock = _digest(server_id.encode()), clock
        self._configuration = ""
        self._reloads: Counter[str] = Counter()
        self._reloaded_at: dict[str, float] = {}
        self.counts: Callable[[], Sequence[DecisionCount]] = lambda: ()
        self._attempts = {result: Histogram(_OBSERVED_BUCKETS) for result in _RESULTS}
        self._durations: dict[tuple[str, str], Histogram] = {}
        self._failed_open: Counter[tuple[str, str]] = Counter()
        self._conditions: dict[str, Histogram] = {}
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
        """Returns how long requests were authorized that may go on, with the bounds of filters."""
        return (self._attempts[_ALLOWED],)

    # ---- webhooks: an `Observer` of their authorizers

    def asked(self, name: str, result: str, seconds: float) -> None:
        key = name, result
        durations = self._durations.get(key)
        if durations is None:
            durations = self._durations[key] = Histogram(_WEBHOOK_BUCKETS)
        durations.observe(seconds)

    def failed_open(self, name: str, result: str) -> None:
        self._failed_open[name, result] += 1

    def matched(self, name: str, seconds: float, *, is_excluded: bool, is_error: bool) -> None:
        durations = self._conditions.get(name)
        if durations is None:
            durations = self._conditions[name] = Histogram(_CONDITION_BUCKETS)
        durations.observe(seconds)
        self._exclusions[name] += is_excluded
        self._condition_errors[name] += is_error

    # ---- the configuration

    def configured(self, content: bytes) -> None:
        """Note what the file has that is in use."""
        self._configuration = _digest(content)

    def reloaded(self, is_applied: bool) -> None:
        status = "success" if is_applied else "failure"
        self._reloads[status] += 1
        self._reloaded_at[status] = self._clock()

    # ---- exposition

    def families(self) -> Iterable[Family]:
        attempts = [((result,), each) for result, each in self._attempts.items() if each.count]
        yield values(
            "authorization_attempts_total",
            "counter",
            "Requests that were authorized, by the result.",
            ("result",),
            [(labels, each.count) for labels, each in attempts],
        )
        yield histogram_family(
            "authorization_duration_seconds",
            "How long the authorization of requests took, by the result.",
            ("result",),
            [(labels, each.with_bounds(_ATTEMPT_BUCKETS)) for labels, each in attempts],
        )
        yield values(
            "apiserver_authorization_decisions_total",
            "counter",
            "Requests that an authorizer has allowed or denied, by its type and name.",
            ("type", "name", "decision"),
            [
                ((each.type, each.name, decision), count)
                for each in self.counts()
                for decision, count in (("allowed", each.allowed), ("denied", each.denied))
                if count
            ],
        )
        yield values(
            "apiserver_authorization_webhook_evaluations_total",
            "counter",
            "Calls of authorization webhooks, by their result.",
            ("name", "result"),
            [(labels, each.count) for labels, each in self._durations.items()],
        )
        yield histogram_family(
            "apiserver_authorization_webhook_duration_seconds",
            "How long calls of authorization webhooks took, by their result.",
            ("name", "result"),
            list(self._durations.items()),
        )
        yield values(
            "apiserver_authorization_webhook_evaluations_fail_open_total",
            "counter",
            "Questions about which an authorization webhook failed, and other authorizers were asked.",
            ("name", "result"),
            list(self._failed_open.items()),
        )
        yield histogram_family(
            "apiserver_authorization_match_condition_evaluation_seconds",
            "How long the match conditions of an authorizer took.",
            ("type", "name"),
            [((_WEBHOOK, name), each) for name, each in self._conditions.items()],
        )
        for name, text, found in (
            ("errors_total", "Evaluations of match conditions that had an error.", self._condition_errors),
            ("exclusions_total", "Requests about which an authorizer was not asked.", self._exclusions),
        ):
            middle = "evaluation_" if name == "errors_total" else ""
            yield values(
                f"apiserver_authorization_match_condition_{middle}{name}",
                "counter",
                text,
                ("type", "name"),
                [((_WEBHOOK, each), count) for each, count in found.items()],
            )
        labels = ("status", "apiserver_id_hash")
        yield values(
            f"{_CONFIGURATION}automatic_reloads_total",
            "counter",
            "Changes of the authorization configuration, by whether they are in use.",
            labels,
            [((status, self._server), count) for status, count in self._reloads.items()],
        )
        yield values(
            f"{_CONFIGURATION}automatic_reload_last_timestamp_seconds",
            "gauge",
            "When the authorization configuration last changed, by whether the change is in use.",
            labels,
            [((status, self._server), when) for status, when in self._reloaded_at.items()],
        )
        yield values(
            f"{_CONFIGURATION}last_config_info",
            "gauge",
            "The hash of the authorization configuration that is in use.",
            ("apiserver_id_hash", "hash"),
            [((self._server, self._configuration), 1)] if self._configuration else [],
        )


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
