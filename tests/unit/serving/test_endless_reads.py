"""Calls of OpenSSL that a client keeps busy are ended from beside the event loop."""

from __future__ import annotations

import socket
import ssl
import sys
import threading

from apiserver.serving.endless_reads import ending_of
from tests.support.eventually import WITHIN_S


def test_a_call_that_takes_records_is_ended() -> None:
    own, peer = socket.socketpair()
    with own, peer:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_socket(
            own, server_side=True, do_handshake_on_connect=False
        )
        failures: list[Exception] = []

        def take() -> None:
            try:
                tls.do_handshake()  # The client never begins.
            except OSError as error:
                failures.append(error)

        taking = threading.Thread(target=take)
        taking.start()
        end = None
        while end is None:
            end = ending_of(sys._current_frames()[taking.ident or 0])
        end()
        taking.join(WITHIN_S)
        assert len(failures) == 1
        tls.close()


def test_other_calls_are_not_ended() -> None:
    assert ending_of(sys._getframe()) is None
