"""Ends connections whose client keeps OpenSSL busy with records that carry no data.

A client may change its keys as often as it likes (RFC 8446, 4.6.3), which takes OpenSSL 9 µs for each 27
bytes. `SSL_read` returns once it has data or nothing more to read. A client that sends fast enough prevents
both, and no other client would be answered.
"""

from __future__ import annotations

import contextlib
import socket
import ssl


class RecordRead:
    """The read of TLS records that is under way on an event loop, if any.

    under_way: None while there is none. The connection is in a tuple of the call's own, which tells it from
        the next one. A thread beside the loop may look at it; not at the variables of the loop's frames,
        which say the same: CPython 3.11 may crash on that while the loop runs.
    """

    __slots__ = ("under_way",)

    def __init__(self) -> None:
        self.under_way: tuple[ssl.SSLSocket] | None = None

    def end(self) -> None:
        """Makes the read under way return soon, if there is one; called from another thread.

        The read returns after it has processed what is in the kernel, at most 64 KB (`RECEIVE_BUFFER_BYTES`).
        """
        call = self.under_way
        if call is not None:
            # Not the method of `SSLSocket`, which also takes its TLS away.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(call[0], socket.SHUT_RDWR)
