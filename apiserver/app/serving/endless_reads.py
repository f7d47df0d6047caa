"""Ends connections whose client keeps OpenSSL busy with what is no data.

A client may change its keys as often as it likes (RFC 8446, 4.6.3), which takes OpenSSL 9 µs for each 27
bytes. `SSL_read` goes on until it has data or nothing more is there, and a client that sends fast enough sees
to it that neither comes true: nobody else would ever be answered.
"""

from __future__ import annotations

import contextlib
import socket
import ssl


class RecordRead:
    """The read of TLS records that is under way on an event loop, if any.

    under_way: None while there is none. The connection is in a tuple of the call's own, which tells it from
        the next one. A thread beside the loop may look at it; not at the variables of the loop's frames,
        which say the same: CPython 3.11 does not stand that while the loop goes on.
    """

    __slots__ = ("under_way",)

    def __init__(self) -> None:
        self.under_way: tuple[ssl.SSLSocket] | None = None

    def end(self) -> None:
        """Makes the call that is under way return soon, if there is one; called from another thread.

        It returns when it has worked off what is in the kernel: 64 KB at most (`RECEIVE_BUFFER_BYTES`).
        """
        call = self.under_way
        if call is not None:
            # Not the method of `SSLSocket`, which also takes its TLS away.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(call[0], socket.SHUT_RDWR)
