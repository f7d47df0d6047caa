"""Rules that hold for every kind of the removed versions. Rows T05, T06, T09, T10, T20-T30."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from tests.unit.catalogue.removed_versions import (
    test_autoscaling,
    test_extensions,
    test_networking,
    test_policy,
    test_renamed,
    test_workloads,
)
from tests.unit.catalogue.removed_versions.old_kinds import OldKind

KINDS: Final[tuple[OldKind, ...]] = (
    *test_autoscaling.KINDS.values(),
    *test_renamed.CRON_JOBS.values(),
    test_extensions.POLICIES,
    *test_networking.KINDS.values(),
    test_policy.BUDGETS,
    test_policy.POLICIES,
    test_policy.OLD_POLICIES,
    *test_workloads.VERSIONS.values(),
)


each_kind = pytest.mark.parametrize(
    "kind", KINDS, ids=[f"{each.resource.api_version} {each.resource.kind}" for each in KINDS]
)


@each_kind
def test_nothing_is_lost_in_protobuf(kind: OldKind) -> None:
    resource, document = kind.resource, kind.completed()
    assert resource.has_protobuf
    again = {**document, **resource.from_protobuf(resource.to_protobuf(document))}
    assert resource.check(again) == []
    assert again == document


@each_kind
@pytest.mark.parametrize("fields", [{}, {"spec": None}, {"spec": {}}], ids=str)
def test_errors_name_what_a_document_lacks(kind: OldKind, fields: dict[str, Any]) -> None:
    least = copy.copy(kind)
    least.valid = {**{name: kind.valid[name] for name in ("apiVersion", "kind", "metadata")}, **fields}
    created = least.create()
    assert all(error.field for error in created.errors)
    assert least.from_hub(created.document)["metadata"]["name"] == "a"
    shown = kind.resource.columns
    assert len(shown.cells(least.completed(), 0)) == len(shown.definitions)
    for name, subresource in kind.resource.subresources.items():
        if subresource.update is not None:
            assert isinstance(least.update({}, name).errors, list)
