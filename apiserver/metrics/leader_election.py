"""Whether this server is the leader of those that share a store, under client-go's name.

Source: k8s.io/component-base, metrics/prometheus/clientgo/leaderelection.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apiserver.metrics.client_library import gauge_family

if TYPE_CHECKING:
    from prometheus_client.core import Metric


@dataclass(slots=True)
class ElectionStatus:
    """name: of the Lease."""

    name: str
    is_leader: bool = False


class LeaderElectionMetrics:
    """The elections that this server takes part in, none if it has the store for itself."""

    def __init__(self) -> None:
        self._elections: list[ElectionStatus] = []

    def add(self, election: ElectionStatus) -> None:
        self._elections.append(election)

    def families(self) -> Iterable[Metric]:
        metric = gauge_family(
            "leader_election_master_status",
            "Whether this server holds the Lease, and so runs the controllers of which only one may run.",
            labels=["name"],
        )
        for election in self._elections:
            metric.add_metric([election.name], election.is_leader)
        yield metric
