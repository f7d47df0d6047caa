"""The process that a server runs in: its own, or one of tests, which gives it more than its configuration."""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass, field
from typing import Final

from apiserver.app.state_copies import Beginning
from apiserver.app.write_history import WriteHistory
from apiserver.clock import SYSTEM_CLOCK, Clock
from apiserver.endpoints.request_history import RequestHistory
from apiserver.faults import FaultInjector
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.serving.listening import Sockets
from apiserver.serving.serving_tls import TlsContent, TlsOptions, make_context

# Servers for tests have the same keys, unless they have files of their own.
CONTEXTS_MAX: Final = 8


class SharedParts:
    """What does not depend on what a server stores: made once, for all servers of a process that get it.

    The servers may be in several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._schemas: dict[tuple[tuple[int, int], str], BuiltinSchemas] = {}
        self._contexts: dict[tuple[TlsContent, TlsOptions], ssl.SSLContext] = {}

    def schemas(self, release: tuple[int, int], vendor: str) -> BuiltinSchemas:
        """Returns the schemas of a release's types. They are 20 MB, and take 20 ms to read."""
        with self._lock:
            found = self._schemas.get((release, vendor))
            if found is None:
                found = self._schemas[release, vendor] = BuiltinSchemas(release, vendor)
            return found

    def tls_context(self, content: TlsContent, options: TlsOptions) -> ssl.SSLContext:
        """Returns what connections are secured with. To make it takes a millisecond or two.

        Raises UnusableTls.
        """
        with self._lock:
            found = self._contexts.get((content, options))
            if found is None:
                while len(self._contexts) >= CONTEXTS_MAX:
                    del self._contexts[next(iter(self._contexts))]
                found = self._contexts[content, options] = make_context(content, options)
            return found


@dataclass(frozen=True, slots=True)
class HostProcess:
    """The process that a server runs in, and what it has for the server.

    is_own: whether it is this server's alone. Then the server keeps the memory of the process small, by the
        garbage collector and the allocator, and measures how long turns of its event loop take. Otherwise it
        changes nothing that others in the process would notice.
    shared: what servers in the process share.
    beginning: with which objects the server begins, in memory; without, it opens the configured store.
    sockets: those on which it serves, which are bound already, and stay open; without, it binds some.
    history: has the last requests; without, they are not kept.
    faults: those that tests inject; without, there are none, unless the configuration allows them.
    writes: has who wrote what; without, that is not kept.
    clock: that the server goes by; its event loop is one of those that the clock makes.
    """

    is_own: bool = True
    shared: SharedParts = field(default_factory=SharedParts)
    beginning: Beginning | None = None
    sockets: Sockets = ()
    history: RequestHistory | None = None
    faults: FaultInjector | None = None
    writes: WriteHistory | None = None
    clock: Clock = SYSTEM_CLOCK
