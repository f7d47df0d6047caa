"""StorageVersionMigrations. Source: pkg/apis/storagemigration/validation (release 1.36)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.storagemigration.storage_version_migrations import (
    validate_migration,
    validate_migration_status,
    validate_migration_update,
)
from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current
from tests.unit.catalogue.served_kinds import assert_texts_begin

AT: Final = "2024-05-06T07:08:09Z"


def migration(**resource: str) -> Document:
    return {"metadata": {"name": "a"}, "spec": {"resource": resource}}


def test_it_names_a_resource() -> None:
    assert validate_migration(migration(group="", resource="secrets")) == []
    (error,) = validate_migration(migration(group="apps", resource=""))
    assert str(error) == "spec.resource.resource: Required value: resource is required to be set"


def test_it_names_what_may_be_a_resource() -> None:
    errors = validate_migration(migration(group="A_", resource="a/b"))
    assert [error.field for error in errors] == ["spec.resource.resource", "spec.resource.group"]


def test_the_resource_stays() -> None:
    before, after = migration(group="apps", resource="deployments"), migration(resource="pods")
    assert validate_migration_update(before, before) == []
    assert [error.field for error in validate_migration_update(after, before)] == ["group", "resource"]


def condition(kind: str, status: str = "True", **fields: Any) -> Document:
    return {"type": kind, "status": status, "reason": "R", "lastTransitionTime": AT, **fields}


RUNNING, SUCCEEDED, FAILED = map(condition, ("Running", "Succeeded", "Failed"))
ENDED: Final = {"resourceVersion": "7", "conditions": [SUCCEEDED]}
# A status, that before, and the beginnings of what is told.
STATUSES: Final[dict[str, tuple[Document, Document, list[str]]]] = {
    "it runs": ({"resourceVersion": "7", "conditions": [RUNNING]}, {}, []),
    "it has ended": ({**ENDED, "conditions": [condition("Running", "False"), SUCCEEDED]}, {}, []),
    "no revision": ({"resourceVersion": "x"}, {}, ["status.resourceVersion: Invalid value"]),
    "a negative revision": ({"resourceVersion": "-1"}, {}, ["status.resourceVersion: Invalid value"]),
    "a huge revision": ({"resourceVersion": "9" * 19}, {}, ["status.resourceVersion: Invalid value"]),
    "another revision": (
        {**ENDED, "resourceVersion": "8"},
        ENDED,
        ['status.resourceVersion: Invalid value: "8": cannot be updated'],
    ),
    "both ends": ({"conditions": [SUCCEEDED, FAILED]}, {}, ["status.conditions: Invalid value"]),
    "it runs after its end": ({"conditions": [RUNNING, FAILED]}, {}, ["status.conditions: Invalid value"]),
    "an end that is taken back": (
        {"resourceVersion": "7"},
        ENDED,
        ["status.conditions: Invalid value: []: Success condition cannot be set to false once it is true"],
    ),
    "a condition twice": (
        {"conditions": [RUNNING, RUNNING]},
        {},
        ['status.conditions[1].type: Duplicate value: "Running"'],
    ),
    "a condition without anything": (
        {"conditions": [{}]},
        {},
        [
            "status.conditions[0].type: Invalid value",
            "status.conditions[0].type: Invalid value",
            'status.conditions[0].status: Unsupported value: "": supported values: "False", "True", "',
            "status.conditions[0].lastTransitionTime: Required value",
            "status.conditions[0].reason: Required value",
        ],
    ),
    "a condition that is wrong in all": (
        {"conditions": [condition("A", reason="1" * 1_025, message="m" * 32_769, observedGeneration=-1)]},
        {},
        [
            "status.conditions[0].observedGeneration: Invalid value: -1",
            "status.conditions[0].reason: Invalid value",
            "status.conditions[0].reason: Too long: may not be more than 1024 bytes",
            "status.conditions[0].message: Too long: may not be more than 32768 bytes",
        ],
    ),
}


@pytest.mark.parametrize(("new", "old", "expected"), STATUSES.values(), ids=STATUSES)
def test_what_a_status_may_be(new: Document, old: Document, expected: list[str]) -> None:
    assert_texts_begin([*map(str, validate_migration_status({"status": new}, {"status": old}))], expected)


def test_v1_of_1_37_is_the_same() -> None:
    spec = {"resource": {"group": "apps", "resource": "deployments"}}
    v1, v1beta1 = (
        OldKind("storageversionmigrations.storagemigration.k8s.io", version, minor, {"spec": spec})
        for version, minor in (("v1", 37), ("v1beta1", 36))
    )
    assert v1.create().texts == []
    assert v1.resource.has_protobuf
    assert read_by_current(v1.completed()) == v1beta1.completed()
    assert v1.resource.storage_version == "v1beta1", "the release before does not have v1"
