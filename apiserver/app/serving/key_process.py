"""Makes the keys of a server in a child process, so that the server need not import `cryptography` for them.

The child is forked while the process has one thread, and no event loop yet. It imports the library while the
server imports its own modules, on another core if there is one. When the server asks for the keys, the child
makes and reads them, answers with the result or the error of `make_server_keys`, and ends. So the start is 30
ms shorter, and an idle server is 11 MB smaller.

The server imports the library with the first request that may need it (`endpoints.middleware`), or at the
start for extensions, OIDC issuers, encryption in the store and certificates by SNI. Servers on etcd, with
workers, or on other systems than Linux make the keys themselves; so does one whose child cannot be forked,
or ends without an answer.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn

from apiserver.app.serving import exit_codes
from apiserver.app.serving.listening import CannotStart
from apiserver.app.serving.server_keys import MakeServerKeys, ServerKeys, make_server_keys
from apiserver.cli.config import Config

if TYPE_CHECKING:
    from apiserver.app.serving.pki import ClusterIdentity

_GO: Final = b"\n"
_IGNORED_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_MODULES: Final = ("apiserver.app.serving.pki", "apiserver.auth.authn.service_account_keys")


@contextmanager
def key_process(config: Config) -> Iterator[MakeServerKeys]:
    """Yields what makes the keys of a server: in a child process if it can be forked, else in this one.

    Servers that share an etcd need the library themselves, for the identity that they share.
    """
    child = _child(config) if _gains_by_fork() and not config.storage.etcd_servers else None
    if child is None:
        yield make_server_keys
        return
    try:
        yield child.make
    finally:
        child.end()


def _gains_by_fork() -> bool:
    """Whether this process can be forked, and does not have the library yet."""
    # Other threads may hold locks, which nobody would release in a child. macOS' frameworks do not support a
    # fork.
    can_fork = sys.platform == "linux" and threading.active_count() == 1
    return can_fork and sys.modules.keys().isdisjoint(_MODULES)


class KeyProcess:
    """The child process of one server. pid: its ID. connection: to it."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self._pid, self._connection = pid, connection
        self._has_ended = False

    def make(self, config: Config, identity: ClusterIdentity | None) -> ServerKeys:
        """Returns the keys, as `make_server_keys` does. config: that which the child has, too.

        Raises CannotStart.
        """
        answer = self._answer() if identity is None else None
        self.end()
        match answer:
            case ServerKeys():
                return answer
            case str():
                raise CannotStart(answer)
            case _:
                return make_server_keys(config, identity)

    def _answer(self) -> object:
        """Returns the child's answer; None if it has ended without one."""
        with suppress(OSError, EOFError, pickle.UnpicklingError), self._connection.makefile("rb") as file:
            self._connection.sendall(_GO)
            return pickle.load(file)  # noqa: S301  from a fork of this process
        return None

    def end(self) -> None:
        """End the child, which may not have been asked, and wait for its end."""
        if self._has_ended:
            return
        self._has_ended = True
        self._connection.close()
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _child(config: Config) -> KeyProcess | None:
    """Fork the child. Returns None if the system refuses it."""
    ours, theirs = socket.socketpair()
    # An interrupt that arrives before the child is in `_answer_once` would make it a second server.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED_SIGNALS)
    try:
        pid = os.fork()
        if not pid:
            _answer_once(config, ours, theirs, before)
    except OSError:
        ours.close()
        return None
    finally:
        theirs.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return KeyProcess(pid, ours)


def _answer_once(
    config: Config, server: socket.socket, connection: socket.socket, mask: Iterable[int]
) -> NoReturn:
    """Make the keys when the server asks for them, answer, and end this process.

    server: the server's end of the connection. mask: the signals that are blocked, if no fork is under way.
    """
    code = exit_codes.FAILURE
    try:
        # Ctrl-C and systemd signal all processes of the server, which ends this one when it does not need it.
        for number in _IGNORED_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        server.close()
        gc.disable()  # A collection would write to each object, and so copy the memory of the server.
        for each in _MODULES:
            import_module(each)
        if connection.recv(len(_GO)):
            answer: ServerKeys | str
            try:
                answer = make_server_keys(config, None)
            except CannotStart as error:
                answer = str(error)
            connection.sendall(pickle.dumps(answer))
        code = 0
    finally:
        # Nothing of the server may run here: no handlers at exit, no buffers written twice. An error is not
        # lost: the server makes the keys itself then, and fails in the same way.
        os._exit(code)
