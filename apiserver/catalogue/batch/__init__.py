"""The group `batch`: controllers of pods that run to completion."""

from __future__ import annotations

from apiserver.catalogue.batch import cron_jobs, jobs
from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType
from apiserver.meta.releases.gates import FeatureGates


def types(gates: FeatureGates = DEFAULT_GATES) -> tuple[BuiltinType, ...]:
    return (cron_jobs.builtin_type(gates), jobs.builtin_type(gates))
