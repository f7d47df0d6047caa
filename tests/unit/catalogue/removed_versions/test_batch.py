"""CronJobs of batch/v1beta1 and batch/v2alpha1. Row T06."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current

CRON_JOB: Final = {
    "spec": {
        "schedule": "0 * * * *",
        "jobTemplate": {
            "spec": {
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "busybox:1"}]}
                }
            }
        },
    }
}
KINDS: Final = {
    "v1beta1": OldKind("cronjobs.batch", "v1beta1", 24, CRON_JOB),
    "v2alpha1": OldKind("cronjobs.batch", "v2alpha1", 20, CRON_JOB),
}
V1: Final = OldKind("cronjobs.batch", "v1", 24, CRON_JOB)
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@each_kind
def test_t06_fields_defaults_and_rules_are_those_of_v1(kind: OldKind) -> None:
    document = kind.completed()
    assert kind.to_hub(document) == V1.completed()
    assert kind.from_hub(kind.to_hub(document)) == document
    assert read_by_current(document) == kind.to_hub(document)
    assert kind.create({"spec.schedule": "x", "spec.concurrencyPolicy": "y"}).texts == (
        V1.create({"spec.schedule": "x", "spec.concurrencyPolicy": "y"}).texts
    )


@each_kind
def test_t06_jobs_outlive_what_has_made_them(kind: OldKind) -> None:
    assert kind.strategy.orphans_by_default
    assert not V1.strategy.orphans_by_default


@each_kind
@given(spec=st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(max_size=3), max_size=3))
def test_nothing_is_lost(kind: OldKind, spec: dict[str, Any]) -> None:
    document = {**kind.valid, "spec": spec}
    assert kind.from_hub(kind.to_hub(document)) == document
