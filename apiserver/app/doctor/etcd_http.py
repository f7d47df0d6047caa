"""Asks the endpoints of etcd for their quota, clock and certificate over HTTP, where metrics are served."""

from __future__ import annotations

import asyncio
import base64
import http.client
import re
import ssl
from contextlib import closing
from time import time
from typing import Final, NamedTuple

from apiserver.app.doctor import clocks
from apiserver.app.doctor.certificates import CertificateFile, Validity
from apiserver.app.doctor.clocks import ClockReading
from apiserver.cli.bounded_files import read_bounded
from apiserver.cli.limited_connection import AnswerLimits, LimitedConnection, NoAnswer
from apiserver.golang.x509_parsing import UNREADABLE, parse_certificate
from apiserver.storage.etcd import Tls
from apiserver.storage.etcd.rpc import Endpoint
from apiserver.webhooks.tls import client_context

HTTP_WITHIN_S: Final = 3.0
_LIMITS: Final = AnswerLimits(HTTP_WITHIN_S, HTTP_WITHIN_S, bytes_max=4 * 1024 * 1024)
_QUOTA: Final = re.compile(rb"^etcd_server_quota_backend_bytes (\S+)$", re.MULTILINE)


class HttpFacts(NamedTuple):
    """What an endpoint says over HTTP, where it serves its metrics. quota_bytes: 0 if unknown."""

    clock: ClockReading | None = None
    certificate: CertificateFile | None = None
    quota_bytes: int = 0


async def ask_over_http(endpoint: str, tls: Tls) -> HttpFacts:
    """Returns what an endpoint says over HTTP; nothing if it does not serve its metrics there."""
    try:
        async with asyncio.timeout(2 * HTTP_WITHIN_S):  # A name may take longer to resolve.
            return await asyncio.to_thread(_ask, endpoint, tls)
    except (TimeoutError, OSError, ArithmeticError, ValueError, http.client.HTTPException, NoAnswer):
        return HttpFacts()


def _ask(endpoint: str, tls: Tls) -> HttpFacts:
    address = Endpoint.parse(endpoint)
    name = f"etcd at {address.authority}"
    context = _context(tls) if address.is_tls else None
    with closing(LimitedConnection(f"//{address.authority}", context, "", _LIMITS)) as connection:
        connection.connect()
        certificate = _certificate(name, connection.sock)
        began = time()
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        ended = time()
        headers = {name.lower(): value for name, value in response.getheaders()}
        quota = _QUOTA.search(response.read())
    clock = clocks.reading(name, headers, began, ended)
    return HttpFacts(clock, certificate, max(0, int(float(quota[1]))) if quota else 0)


def _context(tls: Tls) -> ssl.SSLContext:
    """Raises OSError, UnusableBundle, UnusableCertificate."""
    ca, certificate, key = tls
    bundle = base64.b64encode(read_bounded(ca)).decode() if ca else ""
    pair = (read_bounded(certificate), read_bounded(key)) if certificate and key else None
    return client_context(bundle, pair)


def _certificate(name: str, connection: object) -> CertificateFile | None:
    """Returns the certificate of the other side of a connection; None without TLS."""
    if not isinstance(connection, ssl.SSLSocket):
        return None
    try:
        valid = (Validity.of(parse_certificate(connection.getpeercert(binary_form=True) or b"")),)
    except UNREADABLE:
        return None
    return CertificateFile(f"the certificate of {name}", valid)
