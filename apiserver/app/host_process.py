"""The process that a server runs in: its own, or one of tests with other servers in it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from apiserver.schema.builtin import BuiltinSchemas


class SharedParts:
    """What does not depend on what a server stores: made once, for all servers of a process that get it.

    The servers may be in several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._schemas: dict[tuple[tuple[int, int], str], BuiltinSchemas] = {}

    def schemas(self, release: tuple[int, int], vendor: str) -> BuiltinSchemas:
        """Returns the schemas of a release's types. They are 20 MB, and take 20 ms to read."""
        with self._lock:
            found = self._schemas.get((release, vendor))
            if found is None:
                found = self._schemas[release, vendor] = BuiltinSchemas(release, vendor)
            return found


@dataclass(frozen=True, slots=True)
class HostProcess:
    """The process that a server runs in.

    is_own: whether it is this server's alone. Then the server keeps the memory of the process small, by the
        garbage collector and the allocator, and measures how long turns of its event loop take. Otherwise it
        changes nothing that others in the process would notice.
    shared: what servers in the process share.
    """

    is_own: bool = True
    shared: SharedParts = field(default_factory=SharedParts)
