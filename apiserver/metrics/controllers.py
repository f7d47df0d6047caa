"""Metrics of controllers beside their queues (`work_queues`), and of leader election.

Sources: kubernetes, pkg/controller/garbagecollector/metrics and plugin/pkg/auth/authorizer/node/metrics.go;
k8s.io/component-base, metrics/prometheus/clientgo/leaderelection; k8s.io/kube-aggregator,
pkg/controllers/status/metrics; kube-storage-version-migrator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from apiserver.metrics.histograms import Histograms
from apiserver.metrics.series import Family, family, single

_GRAPH_ACTIONS: Final = "node_authorizer_graph_actions_duration_seconds"
# Resources with their own series: users may define any number.
RESOURCES_MAX: Final = 200
_OTHER: Final = "other"


@dataclass(slots=True)
class ElectionStatus:
    """Whether this server is the leader in one election. name: of the Lease."""

    name: str
    is_leader: bool = False


class LeaderElectionMetrics:
    """Shows the elections that this server takes part in; none if no other server uses its store."""

    def __init__(self) -> None:
        self._elections: list[ElectionStatus] = []

    def add(self, election: ElectionStatus) -> None:
        self._elections.append(election)

    def families(self) -> Iterable[Family]:
        elections = [((each.name,), int(each.is_leader)) for each in self._elections]
        yield family("leader_election_master_status", elections)


class GarbageCollectorMetrics:
    """Counts failures of the garbage collector.

    sync_errors: the number of times that a watch of a resource failed, so that its objects are read again.
    """

    def __init__(self) -> None:
        self.sync_errors = 0

    def count_sync_error(self) -> None:
        self.sync_errors += 1

    def families(self) -> Iterable[Family]:
        yield single("garbagecollector_controller_resources_sync_error_total", self.sync_errors)


class NodeGraphMetrics:
    """Durations of changes to the Node authorizer's graph, by operation, as `AddPod`.

    There are two such names for each kind of object.
    """

    def __init__(self) -> None:
        self._durations = Histograms[str](_GRAPH_ACTIONS)

    def changed(self, operation: str, seconds: float) -> None:
        self._durations[operation].observe(seconds)

    def families(self) -> Iterable[Family]:
        yield family(_GRAPH_ACTIONS, [((operation,), each) for operation, each in self._durations.items()])


class StorageMigrationMetrics:
    """Counts migrations and migrated objects, by the name of the resource, as `deployments.apps`."""

    def __init__(self) -> None:
        self._migrated: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._remaining: dict[str, int] = {}
        self._ended: Counter[str] = Counter()

    def count_migrated(self, resource: str) -> None:
        """Count an object that is in its storage version, because it was rewritten or already was."""
        self._migrated[self._label(resource)] += 1

    def count_failed(self, resource: str) -> None:
        self._failed[self._label(resource)] += 1

    def set_remaining(self, resource: str, count: int) -> None:
        self._remaining[self._label(resource)] = count

    def count_ended(self, status: str) -> None:
        """Count a migration that has ended. status: `Succeeded` or `Failed`."""
        self._ended[status] += 1

    def _label(self, resource: str) -> str:
        known = self._remaining.keys()
        return resource if resource in known or len(known) < RESOURCES_MAX else _OTHER

    def families(self) -> Iterable[Family]:
        for name, counts in (
            ("storage_migrator_core_migrator_migrated_objects_total", self._migrated),
            ("storage_migrator_core_migrator_failed_objects_total", self._failed),
            ("storage_migrator_core_migrator_remaining_objects", self._remaining),
            ("storage_migrator_core_migrator_migrations_total", self._ended),
        ):
            yield family(name, [((label,), count) for label, count in counts.items()])


class ApiServiceMetrics:
    """Counts checks of APIServices, by name and by the reason in the condition. Deleted ones are dropped."""

    def __init__(self) -> None:
        self._unavailable: dict[str, bool] = {}
        self._times: dict[tuple[str, str], int] = {}

    def observe(self, name: str, reason: str, *, is_available: bool, was_available: bool) -> None:
        """Count a check. was_available: the state before the check, or before the first one."""
        is_new = not self._unavailable.get(name, not was_available)
        if not is_available and is_new:
            self._times[name, reason] = self._times.get((name, reason), 0) + 1
        self._unavailable[name] = not is_available

    def forget(self, name: str) -> None:
        self._unavailable.pop(name, None)
        for key in [each for each in self._times if each[0] == name]:
            del self._times[key]

    def families(self) -> Iterable[Family]:
        unavailable = self._unavailable.items()
        yield family(
            "aggregator_unavailable_apiservice", [((name,), int(each)) for name, each in unavailable]
        )
        yield family("aggregator_unavailable_apiservice_total", list(self._times.items()))
