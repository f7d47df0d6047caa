"""StorageVersionMigrations of storagemigration/v1alpha1. Source: pkg/apis/storagemigration (release 1.34)."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current
from tests.unit.catalogue.served_kinds import Changes

NAMED: Final = {"group": "apps", "version": "v1", "resource": "deployments"}
TIME: Final = "2025-01-01T00:00:00Z"
RUNNING: Final = {"type": "Running", "status": "True", "lastUpdateTime": TIME, "reason": "Begun"}
MIGRATIONS: Final = OldKind(
    "storageversionmigrations.storagemigration.k8s.io",
    "v1alpha1",
    34,
    {"spec": {"resource": NAMED, "continueToken": "x"}, "status": {"conditions": [RUNNING]}},
)


def test_they_are_converted_both_ways() -> None:
    document = MIGRATIONS.completed()
    current = MIGRATIONS.to_hub(document)
    assert current["apiVersion"] == "storagemigration.k8s.io/v1beta1"
    (condition,) = current["status"]["conditions"]
    assert condition == {"type": "Running", "status": "True", "lastTransitionTime": TIME, "reason": "Begun"}
    assert read_by_current(document) == current
    assert MIGRATIONS.from_hub(current) == document
    assert MIGRATIONS.resource.has_protobuf


def test_a_new_one_has_no_status() -> None:
    created = MIGRATIONS.create()
    assert created.texts == []
    assert "conditions" not in created.document.get("status", {})
    assert created.document["spec"] == MIGRATIONS.valid["spec"]


# What is changed in a new one, or in one that is there, and what is said.
REFUSED: Final[dict[str, tuple[Changes, str, str]]] = {
    "no resource": ({"spec.resource.resource": None}, "create", "spec.resource.resource: Required value"),
    "no version": ({"spec.resource.version": None}, "create", "spec.resource.version: Required value"),
    "another group": ({"spec.resource.group": "a"}, "update", 'group: Invalid value: "a"'),
    "another version": ({"spec.resource.version": "v2"}, "update", 'version: Invalid value: "v2"'),
    "another resource": ({"spec.resource.resource": "a"}, "update", 'resource: Invalid value: "a"'),
}


@pytest.mark.parametrize(("changes", "how", "text"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(changes: Changes, how: str, text: str) -> None:
    written = MIGRATIONS.create(changes) if how == "create" else MIGRATIONS.update(changes)
    (said,) = written.texts
    assert said.startswith(text)


def test_where_a_list_continues_may_change() -> None:
    assert MIGRATIONS.update({"spec.continueToken": "y"}).texts == []


def test_conditions_are_set_by_status() -> None:
    written = MIGRATIONS.update({"status.conditions": [RUNNING]}, "status")
    assert written.texts == []
    assert MIGRATIONS.from_hub(written.document)["status"]["conditions"] == [RUNNING]
