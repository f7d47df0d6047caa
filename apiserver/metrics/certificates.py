"""Certificates: for how long those are valid that clients show, and those that this server shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, family, single

_CLIENT_EXPIRATION: Final = "apiserver_client_certificate_expiration_seconds"


class CertificateMetrics:
    """Counts client certificates and handshakes, and shows when certificates expire.

    client_expiration: for how many seconds client certificates are still valid, request by request.
    handshake_errors: returns how many TLS handshakes have failed.
    expirations: to be set once there are certificates: returns when each one in use expires, by its name, in
        seconds since 1970.
    """

    def __init__(self, handshake_errors: Callable[[], int]) -> None:
        self.client_expiration = Histogram.of(_CLIENT_EXPIRATION)
        self.expirations: Callable[[], Mapping[str, float]] = dict
        self._handshake_errors = handshake_errors
        self._reloads = {True: 0, False: 0}

    def count_reload(self, is_applied: bool) -> None:
        """Count a change of files of certificates, and whether they are used now."""
        self._reloads[is_applied] += 1

    def families(self) -> Iterable[Family]:
        yield single(_CLIENT_EXPIRATION, self.client_expiration)
        yield single("apiserver_tls_handshake_errors_total", self._handshake_errors())
        reloads = [(("success",), self._reloads[True]), (("failure",), self._reloads[False])]
        yield family("apiserver_tls_file_reloads_total", reloads)
        expirations = [((name,), at) for name, at in self.expirations().items()]
        yield family("apiserver_tls_certificate_expiration_timestamp_seconds", expirations)
