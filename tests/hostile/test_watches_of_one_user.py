"""Nobody keeps others from watching by the number of their own watches."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.support.api import Api
from tests.support.eventually import until
from tests.support.metrics import metric
from tests.support.raw import raw_connection
from tests.support.server_process import ServerProcess

WATCHES_MAX: Final = 20
# What one user alone may have of them.
SHARE: Final = 16
ADMIN: Final[dict[str, str]] = {}
BOB: Final = {"Impersonate-User": "bob"}
ALICE: Final = {"Impersonate-User": "alice"}
ACCOUNTS: Final = [{"Impersonate-User": f"system:serviceaccount:default:a{n}"} for n in range(4)]
REFUSED: Final = "apiserver_watches_refused_total"


class Watches:
    """Opens watches, which stay open."""

    def __init__(self, server: ServerProcess, stack: ExitStack) -> None:
        self._server, self._stack = server, stack

    def open(self, user: dict[str, str]) -> int:
        """Returns the code of the answer."""
        connection: ssl.SSLSocket = self._stack.enter_context(raw_connection(self._server))
        headers = "".join(f"{name}: {value}\r\n" for name, value in user.items())
        path = "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0"
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n{headers}\r\n".encode()
        )
        return int(connection.recv(65_536).split(b" ", 2)[1])


def test_one_user_leaves_watches_to_others(tmp_path: Path) -> None:
    flags = (f"--max-watches={WATCHES_MAX}", "--authorization-mode=AlwaysAllow")
    with ServerProcess(tmp_path / "data", *flags) as server, Api(server) as api, ExitStack() as stack:
        with ExitStack() as of_alice:
            watches = Watches(server, of_alice)
            assert [watches.open(ALICE) for _ in range(SHARE + 2)] == [200] * SHARE + [429] * 2
            others = Watches(server, stack)
            assert others.open(BOB) == 200
            # The accounts of a namespace are one user: who may make some may make any number.
            assert [others.open(account) for account in ACCOUNTS] == [200, 200, 200, 429]
            assert {others.open(ADMIN) for _ in range(WATCHES_MAX)} == {200}
            assert metric(api, REFUSED) == 3
        until(lambda: others.open(ALICE), lambda code: code == 200, "places of watches that ended are free")
