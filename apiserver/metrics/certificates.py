"""Lifetimes of certificates: of those that clients present, and of this server's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, family, single

_CLIENT_EXPIRATION: Final = "apiserver_client_certificate_expiration_seconds"


class CertificateMetrics:
    """Counts client certificates and handshakes, and shows when certificates expire.

    client_expiration: the remaining lifetime of client certificates in seconds, observed at each request.
    handshake_errors: returns the number of failed TLS handshakes.
    expirations: set once there are certificates: returns the expiry of each one in use, by its name, in
        seconds since 1970.
    """

    def __init__(self, handshake_errors: Callable[[], int]) -> None:
        self.client_expiration = Histogram.of(_CLIENT_EXPIRATION)
        self.expirations: Callable[[], Mapping[str, float]] = dict
        self._handshake_errors = handshake_errors
        self._reloads = {True: 0, False: 0}

    def count_reload(self, is_applied: bool) -> None:
        """Count a change of certificate files, and whether the new ones are in use."""
        self._reloads[is_applied] += 1

    def families(self) -> Iterable[Family]:
        yield single(_CLIENT_EXPIRATION, self.client_expiration)
        yield single("apiserver_tls_handshake_errors_total", self._handshake_errors())
        reloads = [(("success",), self._reloads[True]), (("failure",), self._reloads[False])]
        yield family("apiserver_tls_file_reloads_total", reloads)
        expirations = [((name,), at) for name, at in self.expirations().items()]
        yield family("apiserver_tls_certificate_expiration_timestamp_seconds", expirations)
