"""Asks a worker which function runs at the moment, over a socket that a thread of the worker answers."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from apiserver.extensions.frames import ANSWER_BYTES, question, read_answer

# How long a worker may take to answer, in seconds. Its thread does that within some milliseconds, but beside
# a function that loops it needs several turns of a processor that a dozen others may want, too. Without an
# answer, a function is blamed that has not even begun.
ANSWER_TIMEOUT_S: Final = 0.5


class RunningCall:
    """Questions to one worker. Who asks while a question is under way gets the answer to that one.

    A worker that does not answer in time may do so later: each answer repeats the number of its question.
    """

    def __init__(self, control: socket.socket) -> None:
        """control: does not block."""
        self._control = control
        self._question = 0
        self._asking: asyncio.Task[int] | None = None

    async def number(self) -> int:
        """Returns the number of the call whose function runs, on the worker's event loop.

        0 if none does, or if the worker does not say so, as one that has no event loop.
        """
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> int:
        loop, control = asyncio.get_running_loop(), self._control
        self._question += 1
        asked = question(self._question)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await loop.sock_sendall(control, asked)
                while len(answer := await loop.sock_recv(control, ANSWER_BYTES)) == ANSWER_BYTES:
                    if answer.startswith(asked):
                        return read_answer(answer)
        except (OSError, TimeoutError):
            pass
        return 0

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        self._control.close()
