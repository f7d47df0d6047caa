"""The messages between the supervisor and its workers, and their framing."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import Final

_HEAD: Final = struct.Struct(">BI")  # kind, bytes of text


class MessageKind(enum.IntEnum):
    # from a worker
    HELLO = 1  # it receives messages now
    READY = 2
    CANNOT_START = 3  # text: why
    GET_ALL_METRICS = 4
    OWN_METRICS = 5  # text: the exposition; the response to one GET_OWN_METRICS
    ALIVE = 9  # its event loop turns; sent if a watchdog asks for it
    # from a worker, and then from the supervisor to all of them
    SET_VERBOSITY = 10  # text: the value of --v
    # from the supervisor
    STOP = 6
    GET_OWN_METRICS = 7
    ALL_METRICS = 8  # text: the exposition; the response to one GET_ALL_METRICS


def encode_message(kind: MessageKind, text: bytes = b"") -> bytes:
    return _HEAD.pack(kind, len(text)) + text


class MessageReader:
    """Splits received bytes into messages."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> None:
        self._received += data

    def messages(self) -> Iterator[tuple[MessageKind, bytes]]:
        """Yields the kind and the text of each complete message, once."""
        while len(self._received) >= _HEAD.size:
            kind, size = _HEAD.unpack_from(self._received)
            end = _HEAD.size + size
            if len(self._received) < end:
                return
            text = bytes(self._received[_HEAD.size : end])
            del self._received[:end]
            yield MessageKind(kind), text
