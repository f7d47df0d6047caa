"""A client that asks for next to nothing while the server is busy with the requests of others."""

from __future__ import annotations

import threading
from typing import Self

from tests.support.api import Api
from tests.support.server_process import ServerProcess


class Bystander:
    """Asks whether the server is live, or ready, again and again.

    waited_s: how long the server worked on other things while it waited, at most. What others take of the
    machine meanwhile is not the server's doing.
    """

    def __init__(self, server: ServerProcess, path: str = "/livez") -> None:
        self._server, self._api, self._path = server, Api(server, ""), path
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.waited_s = 0.0

    def _ask(self) -> None:
        while not self._is_done.wait(0.002):
            began = self._server.cpu_s
            assert self._api.get(self._path).status == 200
            self.waited_s = max(self.waited_s, self._server.cpu_s - began)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()
        self._api.close()
