"""Calls of OpenSSL that a client keeps busy are ended from beside the event loop."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest

from apiserver.app.serving.tls_record_flood import RecordRead


def test_the_call_that_is_under_way_is_ended() -> None:
    own, peer = socket.socketpair()
    taking = RecordRead()
    with own, peer:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_socket(
            own, server_side=True, do_handshake_on_connect=False
        )
        taking.under_way = (tls,)
        ending = threading.Timer(0.05, taking.end)
        ending.start()
        with pytest.raises(OSError):  # noqa: PT011
            tls.do_handshake()  # The client never begins.
        ending.join()
        tls.close()


def test_without_a_call_nothing_is_ended() -> None:
    taking = RecordRead()
    taking.end()
    assert taking.under_way is None
