"""The messages between the server and a worker process: JSON documents, each after its length.

The server sends

    {"api": {...}}                              how to reach the server; before the first call, and again
                                                when it changes
    {"id": 7, "hook": 0, "timeoutSeconds": 1.0, "call": {...}}
                                                call a hook
    {"cancel": 7}                               the result, or further events, are no longer wanted
    {"read": 7, "events": 3}                    so many events of a watch have been read

and the worker sends

    {"ready": {...}, "files": ["/..."]}         once: its description, and the files of its code
    {"failed": "..."}                           once instead: why its module cannot be imported
    {"id": 7, "result": {...}}                  of a hook
    {"id": 7, "error": {"message": "...", "place": "shop:14", "traceback": "..."}}
                                                those of functions that authenticate have no traceback
    {"stream": 7, "event": {"type": "ADDED", "object": {...}}}
                                                after the result of a watch
    {"stream": 7, "end": {}}                    the last one of a watch; with "error" or "denied" in it, if
                                                the function has failed or refuses the request

On a second socket, the server asks with one byte which function runs, and a thread of the worker answers with
that byte and the number of the call, or zero: a function that does not return keeps the worker from reading
messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

_LENGTH_BYTES: Final = 4
# The question which function runs is a number; the answer repeats it, with the number of the call.
_NUMBER_BYTES: Final = 8
QUESTION_BYTES: Final = 1
ANSWER_BYTES: Final = QUESTION_BYTES + _NUMBER_BYTES
# Of one message from a worker: some objects of the largest size, or a batch of conversions.
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024


class InvalidFrame(Exception):
    """The other side has sent something that is no message, or too large."""


def frame(message: Any) -> bytes:
    """Returns a message as it is sent. Raises TypeError for what JSON cannot have."""
    return framed(orjson.dumps(message))


def framed(encoded: bytes) -> bytes:
    return len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded


class FrameReader:
    """Finds messages in what is received in pieces. frame_bytes_max: of one message; 0 for no limit.

    message_bytes: the size of the message that was returned last.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.message_bytes = 0
        self._received = bytearray()
        self._bytes_max = frame_bytes_max or math.inf

    def feed(self, data: bytes) -> Iterable[dict[str, Any]]:
        """Returns the messages that are complete. To iterate over them raises InvalidFrame, as this does."""
        # Most messages come alone and in one piece.
        length = len(data) - _LENGTH_BYTES
        if self._received or length < 0 or _length(data) != length:
            return self._split(data)
        if length > self._bytes_max:
            raise _too_large(length, self._bytes_max)
        self.message_bytes = length
        return (_message(memoryview(data)[_LENGTH_BYTES:]),)

    def _split(self, data: bytes) -> Iterator[dict[str, Any]]:
        received = self._received
        received += data
        while len(received) >= _LENGTH_BYTES:
            length = _length(received)
            if length > self._bytes_max:
                raise _too_large(length, self._bytes_max)
            end = _LENGTH_BYTES + length
            if len(received) < end:
                return
            message = _message(memoryview(received)[_LENGTH_BYTES:end])
            self.message_bytes = length
            del received[:end]
            yield message


def _too_large(length: int, most: float) -> InvalidFrame:
    return InvalidFrame(f"a message of {length} bytes, more than {most:.0f}")


def _length(data: bytes | bytearray) -> int:
    return int.from_bytes(data[:_LENGTH_BYTES], "big")


def _message(encoded: memoryview) -> dict[str, Any]:
    """Raises InvalidFrame."""
    try:
        message = orjson.loads(encoded)
    except orjson.JSONDecodeError as error:
        raise InvalidFrame(f"a message that is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise InvalidFrame("a message that is no object")
    return message


def question(number: int) -> bytes:
    """Returns the question which function runs. number: of the question."""
    return bytes([number % 256])


def answer_to(asked: bytes, call: int) -> bytes:
    """Returns the answer to a question. call: the number of the call whose function runs; 0 if none does."""
    return asked + call.to_bytes(_NUMBER_BYTES, "big")


def read_answer(answer: bytes) -> int:
    """Returns the number of the call in an answer."""
    return int.from_bytes(answer[QUESTION_BYTES:], "big")
