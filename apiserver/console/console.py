"""Answers requests for the console, below /console/."""

from __future__ import annotations

from typing import Final

from apiserver.console.static_files import StaticFiles
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.responses import send

PREFIX: Final = "/console/"


class Console:
    """The console of a server."""

    def __init__(self) -> None:
        self._files = StaticFiles()

    async def answer(self, call: ApiCall) -> bool:
        """Answer a request that needs no user. Returns whether it was one. Raises ApiError."""
        path = call.info.path
        if path == PREFIX[:-1]:
            await send(call, 301, b"", "", {"Location": PREFIX})
            return True
        if not path.startswith(PREFIX):
            return False
        await self._files.respond(call, path.removeprefix(PREFIX))
        return True
