"""The group `batch`: what runs pods to an end."""

from __future__ import annotations

from apiserver.catalogue.batch import cron_jobs, jobs
from apiserver.catalogue.builtin_type import BuiltinType


def types() -> tuple[BuiltinType, ...]:
    return (cron_jobs.builtin_type(), jobs.builtin_type())
