"""Certificates: for how long those are valid that clients show, and those that this server shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, histograms, values

_HOUR_S: Final = 3_600
_DAY_S: Final = 24 * _HOUR_S
# kube-apiserver's.
EXPIRATION_BUCKETS: Final = (
    *(0, _HOUR_S // 2, _HOUR_S, 2 * _HOUR_S, 6 * _HOUR_S, 12 * _HOUR_S),
    *(_DAY_S * days for days in (1, 2, 4, 7, 30, 90, 180, 360)),
)


class CertificateMetrics:
    """Counts, and asks when /metrics is requested.

    client_expiration: for how many seconds client certificates are still valid, request by request.
    handshake_errors: returns how many TLS handshakes have failed.
    expirations: to be set once there are certificates: returns when each one in use expires, by its name, in
        seconds since 1970.
    """

    def __init__(self, handshake_errors: Callable[[], int]) -> None:
        self.client_expiration = Histogram(EXPIRATION_BUCKETS)
        self.expirations: Callable[[], Mapping[str, float]] = dict
        self._handshake_errors = handshake_errors
        self._reloads = {True: 0, False: 0}

    def count_reload(self, is_applied: bool) -> None:
        """Count a change of files of certificates, and whether they are used now."""
        self._reloads[is_applied] += 1

    def families(self) -> Iterable[Family]:
        yield histograms(
            "apiserver_client_certificate_expiration_seconds",
            "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
            [("", self.client_expiration)],
        )
        yield values(
            "apiserver_tls_handshake_errors_total",
            "counter",
            "Number of requests dropped with 'TLS handshake error from' error",
            (),
            [((), self._handshake_errors())],
        )
        yield values(
            "apiserver_tls_file_reloads_total",
            "counter",
            "Changes of the files of certificates and CAs, by whether they could be used.",
            ("status",),
            [(("success",), self._reloads[True]), (("failure",), self._reloads[False])],
        )
        yield values(
            "apiserver_tls_certificate_expiration_timestamp_seconds",
            "gauge",
            "When a certificate that this server uses expires, in seconds since 1970.",
            ("certificate",),
            [((name,), at) for name, at in self.expirations().items()],
        )
