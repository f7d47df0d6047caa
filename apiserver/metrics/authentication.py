"""Metrics of authentication: of requests, tokens, and issuers.

Sources: k8s.io/apiserver, pkg/endpoints/filters/metrics.go, plugin/pkg/authenticator/token/oidc/metrics.go,
pkg/server/options/authenticationconfig/metrics, pkg/authentication/token/cache/stats.go.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from apiserver.metrics.configuration_reloads import ConfigurationReloads, hash_of
from apiserver.metrics.histograms import Histogram, Histograms
from apiserver.metrics.request_filters import FILTER_DURATIONS
from apiserver.metrics.series import Family, family, single

_ATTEMPTS: Final = "authentication_duration_seconds"
_LATENCIES: Final = "apiserver_authentication_jwt_authenticator_latency_seconds"
_CACHE_REQUESTS: Final = "authentication_token_cache_request_duration_seconds"
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
    """Counts authentication attempts by token and by issuer. The number of issuers is that of the
    configuration.

    server: the name of this server. clock: seconds since 1970.
    """

    def __init__(self, server: str, clock: Callable[[], float] = time.time) -> None:
        self._server, self._clock = hash_of(server.encode()), clock
        self.configuration = ConfigurationReloads("authentication", self._server, clock)
        self._latencies = Histograms[tuple[str, str]](_LATENCIES)
        self._keys_fetched_at: dict[tuple[str, str], float] = {}
        self._key_sets: dict[str, str] = {}
        self._requests: Counter[str] = Counter()
        self._request_s = Histograms[str](_CACHE_REQUESTS)
        self._fetches: Counter[str] = Counter()
        self._legacy_tokens: Counter[str] = Counter()
        # Tokens of service accounts: of Secrets that are marked as invalid; and those that are valid for
        # longer than was asked for, by whether that time was over.
        self.invalid_legacy_tokens = self.stale_tokens = self.valid_tokens = 0
        self._fetching = 0
        self._attempts = {
            result: Histogram.of(_ATTEMPTS, FILTER_DURATIONS) for result in (SUCCESS, FAILURE, ERROR)
        }
        self._users: Counter[str] = Counter()

    # ---- requests

    def identified(self, user: str, seconds: float) -> None:
        """Count a request whose user is known."""
        self._attempts[SUCCESS].observe(seconds)
        if user not in _NAMED_USERS:
            user = "email_id" if "@" in user else "other"
        self._users[user] += 1

    def refused(self, result: str, seconds: float) -> None:
        """Count a request that was refused. result: FAILURE or ERROR."""
        self._attempts[result].observe(seconds)

    def durations(self) -> Iterable[Histogram]:
        """Returns the durations of authentication, with the bounds of filters."""
        return self._attempts.values()

    # ---- issuers

    def authenticated(self, issuer: str, *, is_success: bool, seconds: float) -> None:
        self._latencies[_RESULTS[is_success], hash_of(issuer.encode())].observe(seconds)

    def keys_fetched(self, issuer: str, content: bytes | None) -> None:
        digest = hash_of(issuer.encode())
        self._keys_fetched_at[_RESULTS[content is not None], digest] = self._clock()
        if content is not None:
            self._key_sets[digest] = hash_of(content)

    def issuer_removed(self, issuer: str) -> None:
        digest = hash_of(issuer.encode())
        self._key_sets.pop(digest, None)
        for result in _RESULTS.values():
            self._keys_fetched_at.pop((result, digest), None)

    # ---- caches of tokens

    def asked(self, *, is_hit: bool, seconds: float) -> None:
        status = _STATUSES[is_hit]
        self._requests[status] += 1
        self._request_s[status].observe(seconds)

    def fetch_began(self) -> None:
        self._fetching += 1

    def fetched(self, *, is_success: bool) -> None:
        self._fetching -= 1
        self._fetches[_FETCHES[is_success]] += 1

    # ---- service accounts

    def legacy_token_used(self, *, is_looked_up: bool, is_of_account: bool) -> None:
        """Count a use of a token that is in a Secret. is_of_account: whether its account names the Secret."""
        self._legacy_tokens["all"] += 1
        if is_looked_up:
            self._legacy_tokens["auto" if is_of_account else "manual"] += 1

    # ---- exposition

    def families(self) -> Iterable[Family]:
        attempts = [((result,), each) for result, each in self._attempts.items() if each.count]
        yield family("authentication_attempts", [(labels, each.count) for labels, each in attempts])
        yield family(_ATTEMPTS, attempts)
        yield family("authenticated_user_requests", [((user,), count) for user, count in self._users.items()])
        yield family(_LATENCIES, list(self._latencies.items()))
        yield family(
            "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds",
            [((*key, self._server), at) for key, at in self._keys_fetched_at.items()],
        )
        yield family(
            "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info",
            [((issuer, self._server, digest), 1) for issuer, digest in self._key_sets.items()],
        )
        yield from self.configuration.families()
        yield from self._cache_families()
        yield from self._account_families()

    def _cache_families(self) -> Iterable[Family]:
        for name, by_status in (
            ("authentication_token_cache_request_total", self._requests),
            (_CACHE_REQUESTS, self._request_s),
            ("authentication_token_cache_fetch_total", self._fetches),
            ("authentication_token_cache_active_fetch_count", {"in_flight": self._fetching}),
        ):
            yield family(name, [((status,), value) for status, value in by_status.items()])

    def _account_families(self) -> Iterable[Family]:
        legacy = self._legacy_tokens
        yield single("serviceaccount_legacy_tokens_total", legacy["all"])
        yield single("serviceaccount_legacy_auto_token_uses_total", legacy["auto"])
        yield single("serviceaccount_legacy_manual_token_uses_total", legacy["manual"])
        yield single("serviceaccount_invalid_legacy_auto_token_uses_total", self.invalid_legacy_tokens)
        yield single("serviceaccount_stale_tokens_total", self.stale_tokens)
        yield single("serviceaccount_valid_tokens_total", self.valid_tokens)
