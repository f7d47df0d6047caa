"""Whether this server is the leader of those that share a store, under client-go's name.

Source: k8s.io/component-base, metrics/prometheus/clientgo/leaderelection.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apiserver.metrics.series import Family, family


@dataclass(slots=True)
class ElectionStatus:
    """Whether this server is the leader of one election. name: of the Lease."""

    name: str
    is_leader: bool = False


class LeaderElectionMetrics:
    """Shows the elections that this server takes part in; none if it has the store for itself."""

    def __init__(self) -> None:
        self._elections: list[ElectionStatus] = []

    def add(self, election: ElectionStatus) -> None:
        self._elections.append(election)

    def families(self) -> Iterable[Family]:
        elections = [((each.name,), int(each.is_leader)) for each in self._elections]
        yield family("leader_election_master_status", elections)
