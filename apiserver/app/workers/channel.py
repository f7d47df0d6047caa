"""The supervisor's end of the connection to a worker process."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from typing import Final

from apiserver.app.workers.messages import MessageKind, MessageReader, encode_message

_READ_BYTES: Final = 262_144


class Channel:
    """Sends and receives messages without ever blocking.

    owner: what the selector reports when the socket is ready; the owner then calls `receive` or `flush`.
    """

    def __init__(self, connected: socket.socket, selector: selectors.BaseSelector, owner: object) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._selector = selector
        self._owner = owner
        self._reader = MessageReader()
        self._unsent = bytearray()
        self._is_open = True
        selector.register(connected, selectors.EVENT_READ, owner)

    def send(self, kind: MessageKind, text: bytes = b"") -> None:
        self._unsent += encode_message(kind, text)
        self.flush()

    def flush(self) -> None:
        """Send as much as the socket takes; the rest is sent when it takes more."""
        if not self._is_open:
            return
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except ConnectionError:
            self._end()
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        self._selector.modify(self._socket, events, self._owner)

    def receive(self) -> Iterator[tuple[MessageKind, bytes]]:
        """Yields the messages that have arrived.

        The end of the connection is not reported here: the death of the process is, by a signal.
        """
        if not self._is_open:
            return
        try:
            while data := self._socket.recv(_READ_BYTES):
                self._reader.feed(data)
        except BlockingIOError:
            pass
        except ConnectionError:
            self._end()
        else:
            self._end()
        yield from self._reader.messages()

    def close(self) -> None:
        self._end()
        self._socket.close()

    def close_in_child(self) -> None:
        """Close a forked process's copy of the socket. The parent's stays registered with its selector."""
        self._socket.close()

    def _end(self) -> None:
        if self._is_open:
            self._selector.unregister(self._socket)
        self._is_open = False
