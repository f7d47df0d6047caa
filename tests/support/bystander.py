"""A client that asks for next to nothing while the server is busy with the requests of others."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from tests.hostile.support import longest_turn
from tests.support.api import Api
from tests.support.processor import slowness
from tests.support.server_process import ServerProcess

# The turns of the event loop that a request passes through: its bytes are read, it is handled, and answered.
TURNS: Final = 3


class Bystander:
    """Asks whether the server is live, or ready, again and again.

    waited_s: how long the server worked on other things while it waited, at most, as on a machine of ordinary
    speed. What others take of the machine meanwhile is not the server's doing. Nor is what the client itself
    waits for a processor, while the server works on: so it is no longer than `TURNS` of the longest turns.
    """

    def __init__(self, server: ServerProcess, path: str = "/livez") -> None:
        self._server, self._path = server, path
        self._clients, self._measurement = ExitStack(), ExitStack()
        self._api = self._clients.enter_context(Api(server, ""))
        self._measuring = self._clients.enter_context(Api(server))
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._slower = slowness()
        self.waited_s = 0.0

    def _ask(self) -> None:
        while not self._is_done.wait(0.002):
            began = self._server.cpu_s
            assert self._api.get(self._path).status == 200
            self.waited_s = max(self.waited_s, self._server.cpu_s - began)

    def __enter__(self) -> Self:
        self._turn = self._measurement.enter_context(longest_turn(self._measuring))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._clients:
            self._is_done.set()
            self._thread.join()
            self._measurement.__exit__(kind, error, trace)
        observed_s = self.waited_s / max(self._slower, slowness())
        self.waited_s = min(observed_s, TURNS * self._turn.process_cpu_s)
