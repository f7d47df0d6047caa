"""What StorageVersionMigrations do. The names are those of kube-storage-version-migrator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from apiserver.metrics.series import Family, family

# Resources that have series of their own: users define as many as they like.
RESOURCES_MAX: Final = 200
_OTHER: Final = "other"


class StorageMigrationMetrics:
    """Counts migrations and migrated objects, by the name of the resource, as `deployments.apps`."""

    def __init__(self) -> None:
        self._migrated: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._remaining: dict[str, int] = {}
        self._ended: Counter[str] = Counter()

    def count_migrated(self, resource: str) -> None:
        """Counts an object that is in its storage version, because it was written or was already."""
        self._migrated[self._label(resource)] += 1

    def count_failed(self, resource: str) -> None:
        self._failed[self._label(resource)] += 1

    def set_remaining(self, resource: str, count: int) -> None:
        self._remaining[self._label(resource)] = count

    def count_ended(self, status: str) -> None:
        """Counts a migration that has ended. status: `Succeeded` or `Failed`."""
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
