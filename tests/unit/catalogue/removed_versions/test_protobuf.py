"""Removed versions have a form in protobuf, in which nothing is lost. Rows T05, T06, T09, T10, T20-T30."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.removed_versions import (
    test_autoscaling,
    test_batch,
    test_extensions,
    test_networking,
    test_policy,
    test_workloads,
)
from tests.unit.catalogue.removed_versions.old_kinds import OldKind

KINDS: Final[tuple[OldKind, ...]] = (
    *test_autoscaling.KINDS.values(),
    *test_batch.KINDS.values(),
    test_extensions.POLICIES,
    *test_networking.KINDS.values(),
    test_policy.BUDGETS,
    test_policy.POLICIES,
    test_policy.OLD_POLICIES,
    *test_workloads.VERSIONS.values(),
)


@pytest.mark.parametrize(
    "kind", KINDS, ids=[f"{each.resource.api_version} {each.resource.kind}" for each in KINDS]
)
def test_protobuf(kind: OldKind) -> None:
    resource, document = kind.resource, kind.completed()
    assert resource.has_protobuf
    again = {**document, **resource.from_protobuf(resource.to_protobuf(document))}
    assert resource.check(again) == []
    assert again == document
