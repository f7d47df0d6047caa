"""Finds out, before a server for tests is started, that its etcd is not there.

The server itself waits for etcd for as long as it takes, as it has to where both start together. Nobody wants
to wait for that in a test.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Final
from urllib.parse import urlsplit

from apiserver.testing.errors import ServerDidNotStart

# An etcd that is just being started listens by then.
LISTENS_WITHIN_S: Final = 1.0
POLL_S: Final = 0.02
_PORT: Final = 2379


def require_etcd(endpoints: Sequence[str], *, within_s: float = LISTENS_WITHIN_S) -> None:
    """Returns when one of the endpoints of etcd takes connections; at once if there are none.

    endpoints: URLs. Whether it is etcd that listens there is for the server to find out.
    Raises ServerDidNotStart, which names the endpoints, if none has done so in time.
    """
    if not endpoints:
        return
    ends_at = time.monotonic() + within_s
    while True:
        refusals = []
        for endpoint in endpoints:
            # One that does not even refuse must not take the time of the others.
            refusal = _refusal(endpoint, max(POLL_S, (ends_at - time.monotonic()) / len(endpoints)))
            if refusal is None:
                return
            refusals.append(f"{endpoint} ({refusal})")
        if time.monotonic() + POLL_S > ends_at:
            raise ServerDidNotStart(f"etcd does not answer: {', '.join(refusals)}")
        time.sleep(POLL_S)


def _refusal(endpoint: str, timeout_s: float) -> str | None:
    """Returns why a connection cannot be made; None if it can."""
    url = urlsplit(endpoint)
    try:
        with closing(socket.create_connection((url.hostname or "", url.port or _PORT), timeout_s)):
            return None
    except OSError as error:
        return error.strerror or str(error)
