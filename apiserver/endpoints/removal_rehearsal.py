"""Rehearses the removal of APIs for single clients, by a header of their requests."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.meta.errors import BadRequest
from apiserver.registry.served_resource import ResourceTable, ServedTable
from apiserver.releases.emulation import MAJOR, EmulatedRelease
from apiserver.releases.lifecycles import last_known_removal

HEADER: Final = "Emulate-Removal"
# Each has documents of its own for discovery and OpenAPI, of some megabytes. Beyond, the oldest one goes.
REHEARSED_MAX: Final = 4
_RELEASE: Final = re.compile(rf"v?{MAJOR}\.(\d{{1,3}})")


@dataclass(slots=True)
class _Rehearsed:
    """What is served without what a release has removed. source: the table that it was made of."""

    source: ResourceTable
    served: ServedTable
    routes: Handler


class RemovalRehearsal:
    """Routes requests, those with the header as if a later release had removed what it removes.

    Such a client gets the 404 of that release, and does not find in discovery and OpenAPI what is not there.
    All others are served as before.

    routes: of all other requests. routes_of: makes routes to what is served of a table.
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
        """Raises BadRequest."""
        text = call.request.headers.get(HEADER)
        return self._routes(call) if text is None else self._without(self._minor(text))(call)

    def _minor(self, text: str) -> int:
        """Returns the release that is asked for, of those that --emulate-removal takes. Raises BadRequest."""
        found = _RELEASE.fullmatch(text.strip())
        if found is None or int(found[1]) <= self._release.minor:
            raise BadRequest(
                f"the header {HEADER} must be a release after {self._release}, "
                f"as {MAJOR}.{self._release.minor + 1}"
            )
        minor = int(found[1])
        if minor > self._last_known:
            raise BadRequest(
                f"the header {HEADER}: {MAJOR}.{minor} is after {MAJOR}.{self._last_known}, the last release "
                "of which it is known what it removes"
            )
        return minor

    def _without(self, minor: int) -> Handler:
        """Returns the routes to what is served now, and not removed in a release."""
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
