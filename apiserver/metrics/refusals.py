"""What was refused because there was too much of it already: connections, and watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apiserver.metrics.series import Family, values


class RefusalMetrics:
    """Asks for the counts when /metrics is requested."""

    def __init__(
        self, connections: Callable[[], int], watches: Callable[[], int], unauthorized: Callable[[], int]
    ) -> None:
        """unauthorized: watches that were ended."""
        self._connections, self._watches, self._unauthorized = connections, watches, unauthorized

    def families(self) -> Iterable[Family]:
        yield values(
            "apiserver_connections_refused_total",
            "counter",
            "Connections that were refused because there were too many, by --max-connections or "
            "--max-connections-per-client.",
            (),
            [((), self._connections())],
        )
        yield values(
            "apiserver_watches_refused_total",
            "counter",
            "Watches that were refused because their users had their share of --max-watches.",
            (),
            [((), self._watches())],
        )
        yield values(
            "apiserver_watches_unauthorized_total",
            "counter",
            "Watches that were ended because their users may not watch any more what they watched.",
            (),
            [((), self._unauthorized())],
        )
