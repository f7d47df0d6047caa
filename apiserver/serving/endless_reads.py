"""Ends connections whose client keeps OpenSSL busy with what is no data.

A client may change its keys as often as it likes (RFC 8446, 4.6.3), which takes OpenSSL 9 µs for each 27
bytes. `SSL_read` goes on until it has data or nothing more is there, and a client that sends fast enough sees
to it that neither comes true: nobody else would ever be answered.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Final

# What takes records from a client: in Python's `ssl` each is one call of OpenSSL.
_TAKING: Final = frozenset(
    each.__code__ for each in (ssl.SSLSocket.read, ssl.SSLSocket.unwrap, ssl.SSLSocket.do_handshake)
)


def ending_of(frame: FrameType) -> Callable[[], None] | None:
    """Returns what ends the call of a frame if it takes records from a client, else None.

    The call returns when it has worked off what is in the kernel: 64 KB at most (`RECEIVE_BUFFER_BYTES`).
    """
    if frame.f_code not in _TAKING:
        return None
    tls = frame.f_locals.get("self")
    return partial(_end, tls) if isinstance(tls, ssl.SSLSocket) else None


def _end(tls: ssl.SSLSocket) -> None:
    # Not the method of `SSLSocket`, which also takes its TLS away.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(tls, socket.SHUT_RDWR)
