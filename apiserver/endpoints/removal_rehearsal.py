"""Rehearses the removal of APIs for single clients that ask for it by a request header."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.meta.errors import BadRequest
from apiserver.meta.releases.emulation import MAJOR, EmulatedRelease
from apiserver.meta.releases.lifecycles import last_known_removal
from apiserver.registry.served_resource import ResourceTable, ServedTable

HEADER: Final = "Emulate-Removal"
# Each has its own documents for discovery and OpenAPI, of some megabytes. Beyond this number the oldest is
# dropped.
REHEARSED_MAX: Final = 4
_RELEASE: Final = re.compile(rf"v?{MAJOR}\.(\d{{1,3}})")


@dataclass(slots=True)
class _Rehearsed:
    """The resources that are served without those that a release has removed.

    source: the table that they were made from.
    """

    source: ResourceTable
    served: ServedTable
    routes: Handler


class RemovalRehearsal:
    """Routes requests with the header as if a later release had removed its APIs, and others as usual.

    A request with the header gets the 404 of that release, and discovery and OpenAPI without the removed
    APIs.

    routes: of all other requests. routes_of: makes the routes to the resources of a table.
    """

    def __init__(
        self,
        routes: Handler,
        served: ServedTable,
        routes_of: Callable[[ServedTable], Handler],
        release: EmulatedRelease,
    ) -> None:
        self._routes, self._served, self._routes_of, self._release = routes, served, routes_of, release
        self._last_known = last_known_removal()
        self._rehearsed: dict[int, _Rehearsed] = {}

    def __call__(self, call: ApiCall) -> Awaitable[None]:
        """Route a call."""
        text = call.request.headers.get(HEADER)
        return self._routes(call) if text is None else self._without(self._minor(text))(call)

    def _minor(self, text: str) -> int:
        """Returns the minor version of the requested release, which must be one that --emulate-removal takes.

        Raises BadRequest.
        """
        found = _RELEASE.fullmatch(text.strip())
        if found is None or int(found[1]) <= self._release.minor:
            raise BadRequest(
                f"the header {HEADER} must be a release after {self._release}, "
                f"such as {MAJOR}.{self._release.minor + 1}"
            )
        minor = int(found[1])
        if minor > self._last_known:
            raise BadRequest(
                f"the header {HEADER}: {MAJOR}.{minor} is after {MAJOR}.{self._last_known}, the last release "
                "whose removals are known"
            )
        return minor

    def _without(self, minor: int) -> Handler:
        """Returns the routes to the resources that are served now and not removed in a release."""
        table = self._served.current
        rehearsed = self._rehearsed.get(minor)
        if rehearsed is None:
            if len(self._rehearsed) >= REHEARSED_MAX:
                del self._rehearsed[next(iter(self._rehearsed))]
            served = ServedTable(table.without_removed(minor))
            rehearsed = self._rehearsed[minor] = _Rehearsed(table, served, self._routes_of(served))
        elif rehearsed.source is not table:
            rehearsed.source = table
            rehearsed.served.replace(table.without_removed(minor))
        return rehearsed.routes
