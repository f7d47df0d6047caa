"""What was refused because there was too much of it already: connections, and watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apiserver.metrics.series import Family, single


class RefusalMetrics:
    """Shows how many connections and watches were refused."""

    def __init__(
        self, connections: Callable[[], int], watches: Callable[[], int], unauthorized: Callable[[], int]
    ) -> None:
        """unauthorized: watches that were ended."""
        self._connections, self._watches, self._unauthorized = connections, watches, unauthorized

    def families(self) -> Iterable[Family]:
        yield single("apiserver_connections_refused_total", self._connections())
        yield single("apiserver_watches_refused_total", self._watches())
        yield single("apiserver_watches_unauthorized_total", self._unauthorized())
