"""CronJobs of batch/v1beta1 and batch/v2alpha1: their jobs outlive them by default. Row T06.

Source: pkg/registry/batch/cronjob/strategy.go, DefaultGarbageCollectionPolicy (release 1.20).
"""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import other_version
from apiserver.catalogue.removed_versions.current_types import CurrentTypes


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    v1 = current.find("batch", "cronjobs")
    strategy = v1.strategy._replace(orphans_by_default=True)
    return tuple(other_version(v1, version, strategy=strategy) for version in ("v1beta1", "v2alpha1"))
