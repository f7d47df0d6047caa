"""Imports modules in a thread at their first use, so that the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from importlib import import_module

from apiserver.load.switch_interval import compute_in_thread


class LateImport:
    """Modules that not every server needs, and whose import would hold up the event loop.

    is_done: whether `finish` has imported them. Then importing one again takes a microsecond. Before, another
        thread may be importing them, for which an import would wait.
    """

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self.is_done = False
        self._importing: asyncio.Task[None] | None = None

    async def finish(self) -> None:
        """Imports the modules in a thread. Callers at the same time wait for the same import.

        Raises what the import raises; the next caller tries it again.
        """
        if self._importing is None:
            self._importing = asyncio.create_task(self._finish())
        # It goes on for others if this caller is cancelled.
        await asyncio.shield(self._importing)

    async def _finish(self) -> None:
        try:
            await compute_in_thread(self._import)
            self.is_done = True
        finally:
            self._importing = None

    def _import(self) -> None:
        for each in self._modules:
            import_module(each)
