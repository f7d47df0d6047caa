"""Checks, before a server for tests starts, whether its etcd is reachable and is an etcd.

The server itself waits for etcd indefinitely, as it must when both start together. Tests should not wait that
long.

The probe only begins HTTP/2: the status of etcd needs gRPC, which does not work well with forks of the test
process. Any HTTP/2 server passes; the server itself detects that. An endpoint that accepts connections but
stays silent may be an etcd: a member of a cluster that had no leader yet does not send a single byte (seen
with 3.5). So that is only logged, and the server starts.
"""

from __future__ import annotations

import http.client
import logging
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

import orjson

from apiserver.testing.errors import ServerDidNotStart

log = logging.getLogger(__name__)

# An etcd that is just being started answers by then.
ANSWERS_WITHIN_S: Final = 1.0
POLL_S: Final = 0.02
# How long the first attempt at an endpoint lasts, so that a silent one does not hold up the others; the next
# lasts twice as long, and so on.
FIRST_ATTEMPT_S: Final = 0.1
# How long an endpoint may take to say why it is of no use, when the server has waited in vain.
EXPLAINS_WITHIN_S: Final = 1.0
HEALTH_BYTES_MAX: Final = 4096
_PORT: Final = 2379
# What a client begins with, and its SETTINGS, which are empty. Source: RFC 9113, sections 3.4, 4.1 and 6.5.
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
_FRAME_HEADER_BYTES: Final = 9
_SETTINGS: Final = 4
_SILENCE: Final = (
    "the endpoint accepts connections but does not respond: "
    "either etcd has no leader yet, or this is not etcd"
)


class EtcdTls(NamedTuple):
    """The PEM files for calls of etcd, as the server's flags name them."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


class _Finding(NamedTuple):
    """The reason why an endpoint is not usable. may_pass: whether a slow etcd may look the same."""

    why: str
    may_pass: bool = False


class EtcdProbe:
    """Probes the endpoints of etcd, which are URLs."""

    def __init__(self, endpoints: Sequence[str], tls: EtcdTls | None = None) -> None:
        self._endpoints, self._tls = endpoints, tls or EtcdTls()

    def require(self, *, within_s: float = ANSWERS_WITHIN_S) -> None:
        """Returns when one of the endpoints responds; at once if there are none.

        Raises ServerDidNotStart, which names the endpoints and their errors, if none responds in time. If one
        is silent, which an etcd may be, it is logged instead.
        """
        if not self._endpoints:
            return
        ends_at, attempt_s = time.monotonic() + within_s, FIRST_ATTEMPT_S
        findings: dict[str, _Finding] = {}
        errors_took_s: dict[str, float] = {}
        while True:
            for endpoint in self._endpoints:
                began = time.monotonic()
                timeout_s = max(POLL_S, min((ends_at - began) / len(self._endpoints), attempt_s))
                finding = self._ask(endpoint, timeout_s)
                if finding is None:
                    return
                if not finding.may_pass:
                    errors_took_s[endpoint] = time.monotonic() - began
                # The last attempt is short: silence says nothing where an error took longer to come.
                if not finding.may_pass or timeout_s >= errors_took_s.get(endpoint, 0):
                    findings[endpoint] = finding
            if time.monotonic() + POLL_S > ends_at:
                break
            time.sleep(POLL_S)
            attempt_s *= 2
        told = f"etcd does not respond: {self._told(list(findings.values()))}"
        if not any(each.may_pass for each in findings.values()):
            raise ServerDidNotStart(told)
        log.warning("%s; waiting for etcd", told)

    def why_not_ready(self) -> str:
        """Returns the current problem with etcd, as the end of a sentence; empty if none is known."""
        findings = [self._ask(each, EXPLAINS_WITHIN_S) or self._health(each) for each in self._endpoints]
        known = [each for each in findings if each is not None]
        # If one etcd works, problems of the others do not matter.
        return f"etcd: {self._told(known)}" if known and len(known) == len(findings) else ""

    def _told(self, findings: Sequence[_Finding]) -> str:
        told = zip(self._endpoints, findings, strict=True)
        return ", ".join(f"{endpoint} ({finding.why})" for endpoint, finding in told)

    def _ask(self, endpoint: str, timeout_s: float) -> _Finding | None:
        """Returns the problem of an endpoint; None if it speaks HTTP/2, or the server itself will report
        it.
        """
        url = urlsplit(endpoint)
        context = None
        if url.scheme == "https":
            context = self._context()
            if context is None:
                return None
            context.set_alpn_protocols(["h2"])
        ends_at = time.monotonic() + timeout_s
        try:
            connection = socket.create_connection(_address(url), timeout_s)
        except ConnectionResetError:
            return _closed(url)
        except OSError as error:
            return _Finding(error.strerror or str(error))
        with closing(connection):
            try:
                begun = _beginning(connection, context, url.hostname or "", ends_at)
                return _wrong(begun) if begun else _closed(url)
            except ssl.SSLCertVerificationError as error:
                # gRPC has its own CAs if none are given.
                may_pass = self._tls.ca is None
                return _Finding(f"the server's certificate is not trusted: {error.verify_message}", may_pass)
            except ssl.SSLEOFError:
                return _closed(url)
            except ssl.SSLError as error:
                return _tls_failure(error)
            except TimeoutError:
                return _Finding(_SILENCE, may_pass=True)
            except OSError:
                return _closed(url)

    def _context(self) -> ssl.SSLContext | None:
        """Returns the TLS context of calls; None if a file is invalid, which the server itself reports."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # gRPC, too, trusts each certificate of the CA's file for itself.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            if self._tls.ca is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(self._tls.ca)
            if self._tls.certificate is not None:
                context.load_cert_chain(self._tls.certificate, self._tls.key, password=lambda: "")
        except (OSError, ValueError):
            return None
        return context

    def _health(self, endpoint: str) -> _Finding | None:
        """Returns the problem that an etcd reports; None if it is healthy, or does not report its health."""
        url = urlsplit(endpoint)
        host, port = _address(url)
        connection = http.client.HTTPConnection(host, port, timeout=EXPLAINS_WITHIN_S)
        if url.scheme == "https":
            context = self._context()
            connection = http.client.HTTPSConnection(host, port, timeout=EXPLAINS_WITHIN_S, context=context)
        try:
            with closing(connection):
                connection.request("GET", "/health")
                health = orjson.loads(connection.getresponse().read(HEALTH_BYTES_MAX))
        except (OSError, http.client.HTTPException, ValueError):
            return None
        if not isinstance(health, dict) or health.get("health") != "false":
            return None
        return _Finding(f"etcd is not healthy: {str(health.get('reason') or 'no reason given').lower()}")


def _address(url: SplitResult) -> tuple[str, int]:
    return url.hostname or "", url.port or _PORT


def _beginning(connection: socket.socket, context: ssl.SSLContext | None, name: str, ends_at: float) -> bytes:
    """Returns the first bytes of the other side; fewer than a frame has if it closes the connection.

    ends_at: by time.monotonic. Raises OSError, and TimeoutError if too few bytes have arrived by then.
    """
    if context is not None:
        connection = context.wrap_socket(connection, server_hostname=name)
    with closing(connection):
        connection.sendall(_PREFACE)
        begun = b""
        while len(begun) < _FRAME_HEADER_BYTES:
            left_s = ends_at - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            connection.settimeout(left_s)
            more = connection.recv(_FRAME_HEADER_BYTES - len(begun))
            if not more:
                break
            begun += more
    return begun


def _closed(url: SplitResult) -> _Finding:
    other = "etcd has no TLS" if url.scheme == "https" else "etcd has TLS and the URL is not https"
    return _Finding(f"the endpoint closes the connection: this is not etcd, or {other}")


def _tls_failure(error: ssl.SSLError) -> _Finding:
    why = (error.reason or str(error)).replace("_", " ").lower()
    if "alert" in why and ("certificate" in why or "unknown ca" in why):
        return _Finding(f"the endpoint does not accept the client certificate in --etcd-certfile: {why}")
    return _Finding(f"TLS fails: {why}")


def _wrong(begun: bytes) -> _Finding | None:
    """Returns why the first bytes are not etcd's; None if they are a frame of SETTINGS."""
    if begun.startswith(b"HTTP/"):
        return _Finding("the endpoint responds in HTTP/1: this is not etcd")
    is_settings = len(begun) == _FRAME_HEADER_BYTES and begun[3] == _SETTINGS and not any(begun[5:])
    return None if is_settings else _Finding("the endpoint does not respond in HTTP/2: this is not etcd")
