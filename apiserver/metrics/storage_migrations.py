"""What StorageVersionMigrations do. The names are those of kube-storage-version-migrator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from apiserver.metrics.client_library import counter_family, gauge_family

if TYPE_CHECKING:
    from prometheus_client.core import Metric

# Resources that have series of their own: users define as many as they like.
RESOURCES_MAX: Final = 200
_OTHER: Final = "other"


class StorageMigrationMetrics:
    """Counts by the name of the resource, as in `deployments.apps`."""

    def __init__(self) -> None:
        self._migrated: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._remaining: dict[str, int] = {}
        self._ended: Counter[str] = Counter()

    def count_migrated(self, resource: str) -> None:
        """An object is in its storage version, because it was written or was already."""
        self._migrated[self._label(resource)] += 1

    def count_failed(self, resource: str) -> None:
        self._failed[self._label(resource)] += 1

    def set_remaining(self, resource: str, count: int) -> None:
        self._remaining[self._label(resource)] = count

    def count_ended(self, status: str) -> None:
        """status: `Succeeded` or `Failed`."""
        self._ended[status] += 1

    def _label(self, resource: str) -> str:
        known = self._remaining.keys()
        return resource if resource in known or len(known) < RESOURCES_MAX else _OTHER

    def families(self) -> Iterable[Metric]:
        prefix = "storage_migrator_core_migrator"
        for name, counts, text in (
            ("migrated_objects", self._migrated, "Objects that are stored in their storage version."),
            ("failed_objects", self._failed, "Objects that could not be written again."),
        ):
            family = counter_family(f"{prefix}_{name}", text, labels=["resource"])
            for resource, count in counts.items():
                family.add_metric([resource], count)
            yield family
        gauge = gauge_family(
            f"{prefix}_remaining_objects", "Objects that a migration has not come to.", labels=["resource"]
        )
        for resource, count in self._remaining.items():
            gauge.add_metric([resource], count)
        yield gauge
        ended = counter_family(f"{prefix}_migrations", "Migrations that have ended.", labels=["status"])
        for status, count in self._ended.items():
            ended.add_metric([status], count)
        yield ended
