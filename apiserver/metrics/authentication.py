"""Whose requests and tokens were authenticated, and what is known of issuers.

Sources: k8s.io/apiserver, pkg/endpoints/filters/metrics.go, plugin/pkg/authenticator/token/oidc/metrics.go,
pkg/server/options/authenticationconfig/metrics, pkg/authentication/token/cache/stats.go.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.request_filters import with_filter_buckets
from apiserver.metrics.series import Family, histogram_family, values

# Seconds.
_LATENCY_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_CACHE_BUCKETS: Final = (*(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),)
_ATTEMPT_BUCKETS: Final = tuple(0.001 * 2**exponent for exponent in range(15))
_OBSERVED_BUCKETS: Final = with_filter_buckets(_ATTEMPT_BUCKETS)
# Users whose requests are counted under their names. The others are as many as there are users.
_NAMED_USERS: Final = frozenset(
    {"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"}
)
# Attempts of requests: without credentials, where that is not allowed, and with some that are not valid.
SUCCESS, FAILURE, ERROR = "success", "failure", "error"
_RESULTS: Final = {True: "success", False: "failure"}
_STATUSES: Final = {True: "hit", False: "miss"}
_FETCHES: Final = {True: "ok", False: "error"}


class AuthenticationMetrics:
    """Counts what authenticators of tokens do. Series of issuers are as many as are configured.

    server: the name of this server. clock: seconds since 1970.
    """

    def __init__(self, server: str, clock: Callable[[], float] = time.time) -> None:
        self._server, self._clock = _digest(server.encode()), clock
        self._latencies: dict[tuple[str, str], Histogram] = {}
        self._keys_fetched_at: dict[tuple[str, str], float] = {}
        self._key_sets: dict[str, str] = {}
        self._reloads: Counter[str] = Counter()
        self._reloaded_at: dict[str, float] = {}
        self._configuration = ""
        self._requests: Counter[str] = Counter()
        self._request_s: dict[str, Histogram] = {}
        self._fetches: Counter[str] = Counter()
        self._legacy_tokens: Counter[str] = Counter()
        # Tokens of service accounts: of Secrets that are marked as invalid; and those that are valid for
        # longer than was asked for, by whether that time was over.
        self.invalid_legacy_tokens = self.stale_tokens = self.valid_tokens = 0
        self._fetching = 0
        self._attempts = {result: Histogram(_OBSERVED_BUCKETS) for result in (SUCCESS, FAILURE, ERROR)}
        self._users: Counter[str] = Counter()

    # ---- requests

    def identified(self, user: str, seconds: float) -> None:
        """Count a request of which it is known who makes it."""
        self._attempts[SUCCESS].observe(seconds)
        if user not in _NAMED_USERS:
            user = "email_id" if "@" in user else "other"
        self._users[user] += 1

    def refused(self, result: str, seconds: float) -> None:
        """Count a request that was refused. result: FAILURE or ERROR."""
        self._attempts[result].observe(seconds)

    def durations(self) -> Iterable[Histogram]:
        """Returns how long requests were authenticated, with the bounds of filters."""
        return self._attempts.values()

    # ---- issuers

    def authenticated(self, issuer: str, *, is_success: bool, seconds: float) -> None:
        key = _RESULTS[is_success], _digest(issuer.encode())
        if key not in self._latencies:
            self._latencies[key] = Histogram(_LATENCY_BUCKETS)
        self._latencies[key].observe(seconds)

    def keys_fetched(self, issuer: str, content: bytes | None) -> None:
        digest = _digest(issuer.encode())
        self._keys_fetched_at[_RESULTS[content is not None], digest] = self._clock()
        if content is not None:
            self._key_sets[digest] = _digest(content)

    def issuer_removed(self, issuer: str) -> None:
        digest = _digest(issuer.encode())
        self._key_sets.pop(digest, None)
        for result in _RESULTS.values():
            self._keys_fetched_at.pop((result, digest), None)

    # ---- the configuration

    def configured(self, content: bytes) -> None:
        """A file is in use."""
        self._configuration = _digest(content)

    def reloaded(self, is_success: bool) -> None:
        self._reloads[_RESULTS[is_success]] += 1
        self._reloaded_at[_RESULTS[is_success]] = self._clock()

    # ---- caches of tokens

    def asked(self, *, is_hit: bool, seconds: float) -> None:
        status = _STATUSES[is_hit]
        self._requests[status] += 1
        if status not in self._request_s:
            self._request_s[status] = Histogram(_CACHE_BUCKETS)
        self._request_s[status].observe(seconds)

    def fetch_began(self) -> None:
        self._fetching += 1

    def fetched(self, *, is_success: bool) -> None:
        self._fetching -= 1
        self._fetches[_FETCHES[is_success]] += 1

    # ---- service accounts

    def legacy_token_used(self, *, is_looked_up: bool, is_of_account: bool) -> None:
        """A token that stands in a Secret. is_of_account: its account names the Secret."""
        self._legacy_tokens["all"] += 1
        if is_looked_up:
            self._legacy_tokens["auto" if is_of_account else "manual"] += 1

    # ---- exposition

    def families(self) -> Iterable[Family]:
        yield from self._request_families()
        yield histogram_family(
            "apiserver_authentication_jwt_authenticator_latency_seconds",
            "How long it took to authenticate tokens that were not in the cache, by their issuer.",
            ("result", "jwt_issuer_hash"),
            list(self._latencies.items()),
        )
        yield values(
            "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds",
            "gauge",
            "When the keys of an issuer were last fetched, or could not be.",
            ("result", "jwt_issuer_hash", "apiserver_id_hash"),
            [((*key, self._server), at) for key, at in self._keys_fetched_at.items()],
        )
        yield values(
            "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info",
            "gauge",
            "The keys of an issuer that were last fetched, by their hash.",
            ("jwt_issuer_hash", "apiserver_id_hash", "hash"),
            [((issuer, self._server, digest), 1) for issuer, digest in self._key_sets.items()],
        )
        yield from self._configuration_families()
        yield from self._cache_families()
        yield from self._account_families()

    def _request_families(self) -> Iterable[Family]:
        attempts = [((result,), each) for result, each in self._attempts.items() if each.count]
        yield values(
            "authentication_attempts",
            "counter",
            "Requests that were authenticated, by the result.",
            ("result",),
            [(labels, each.count) for labels, each in attempts],
        )
        yield histogram_family(
            "authentication_duration_seconds",
            "How long the authentication of requests took, by the result.",
            ("result",),
            [(labels, each.with_bounds(_ATTEMPT_BUCKETS)) for labels, each in attempts],
        )
        yield values(
            "authenticated_user_requests",
            "counter",
            "Requests by who made them: under five names that components have, email_id or other.",
            ("username",),
            [((user,), count) for user, count in self._users.items()],
        )

    def _configuration_families(self) -> Iterable[Family]:
        labels = ("status", "apiserver_id_hash")
        yield values(
            "apiserver_authentication_config_controller_automatic_reloads_total",
            "counter",
            "How often the authentication configuration was reloaded, or could not be.",
            labels,
            [((status, self._server), count) for status, count in self._reloads.items()],
        )
        yield values(
            "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
            "gauge",
            "When the authentication configuration was last reloaded, or could not be.",
            labels,
            [((status, self._server), at) for status, at in self._reloaded_at.items()],
        )
        yield values(
            "apiserver_authentication_config_controller_last_config_info",
            "gauge",
            "The authentication configuration that is in use, by its hash.",
            ("apiserver_id_hash", "hash"),
            [((self._server, self._configuration), 1)] if self._configuration else [],
        )

    def _cache_families(self) -> Iterable[Family]:
        yield values(
            "authentication_token_cache_request_total",
            "counter",
            "Tokens that were looked for in a cache.",
            ("status",),
            [((status,), count) for status, count in self._requests.items()],
        )
        yield histogram_family(
            "authentication_token_cache_request_duration_seconds",
            "How long it took to find out whose tokens are that a cache is asked about.",
            ("status",),
            [((status,), each) for status, each in self._request_s.items()],
        )
        yield values(
            "authentication_token_cache_fetch_total",
            "counter",
            "Tokens that were looked up because no cache had them.",
            ("status",),
            [((status,), count) for status, count in self._fetches.items()],
        )
        yield values(
            "authentication_token_cache_active_fetch_count",
            "gauge",
            "Tokens that are being looked up.",
            ("status",),
            [(("in_flight",), self._fetching)],
        )

    def _account_families(self) -> Iterable[Family]:
        legacy = self._legacy_tokens
        for name, text, count in (
            ("legacy_tokens", "Uses of tokens that stand in Secrets.", legacy["all"]),
            ("legacy_auto_token_uses", "Those of them that accounts name.", legacy["auto"]),
            ("legacy_manual_token_uses", "Those of them that no account names.", legacy["manual"]),
            (
                "invalid_legacy_auto_token_uses",
                "Those that were refused because their Secret is marked as invalid.",
                self.invalid_legacy_tokens,
            ),
            ("stale_tokens", "Uses of tokens after the time for which they were asked.", self.stale_tokens),
            ("valid_tokens", "Uses of tokens with a longer time, before that.", self.valid_tokens),
        ):
            yield values(f"serviceaccount_{name}_total", "counter", text, (), [((), count)])


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}" if data else ""
