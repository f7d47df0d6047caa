"""Builds the console when somebody visits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.app.core import Core
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.middleware import OpenPaths

if TYPE_CHECKING:
    from apiserver.console.console import Console

_PREFIX: Final = "/console"


class LazyConsole:
    """The console of a server, which is imported and built when the first request for it comes."""

    def __init__(self) -> None:
        self._console: Console | None = None

    async def answer(self, call: ApiCall) -> bool:
        """Answer a request that needs no user. Returns whether it was one. Raises ApiError."""
        if self._console is None:
            from apiserver.console.console import Console

            self._console = Console()
        return await self._console.answer(call)


def console_paths(core: Core) -> OpenPaths | None:
    """Returns the paths of the console that need no user; None if it is not served."""
    return OpenPaths(_PREFIX, LazyConsole().answer) if core.config.has_console else None
