"""Tracks the calls in progress: which of them are late, and which one blocked the event loop."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from apiserver.endpoints.api_call import ApiCall

# Paths are clients' own words.
_PATH_LENGTH_MAX: Final = 100


class CallsUnderWay:
    """The calls whose time is bounded by the server, with their tasks.

    tasks: oldest first.
    """

    def __init__(self) -> None:
        self.tasks: dict[ApiCall, asyncio.Task[object] | None] = {}

    def operation_of(self, task: asyncio.Task[Any]) -> str:
        """Returns verb and resource of a task's call, or method and path; "" if it has none.

        It may be called from another thread. The variables of frames would show the same, but CPython 3.11
        crashes if they are read while their thread runs.
        """
        for call, of in self.tasks.copy().items():
            if of is task:
                return _operation(call)
        return ""


def _operation(call: ApiCall) -> str:
    info, resource = call.info, call.found_resource
    if resource is None:
        return f"{ascii(info.method)[1:-1]} {ascii(info.path[:_PATH_LENGTH_MAX])[1:-1]}"
    name = str(resource.group_resource)
    return f"{info.verb} {name}/{info.subresource}" if info.subresource else f"{info.verb} {name}"
