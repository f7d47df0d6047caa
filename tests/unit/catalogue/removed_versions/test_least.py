"""Clients of removed versions may leave out everything but the name: they are told what is missing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.unit.catalogue.removed_versions.old_kinds import OldKind
from tests.unit.catalogue.removed_versions.test_protobuf import KINDS

each_kind = pytest.mark.parametrize(
    "kind", KINDS, ids=[f"{each.resource.api_version} {each.resource.kind}" for each in KINDS]
)


@each_kind
@pytest.mark.parametrize("fields", [{}, {"spec": None}, {"spec": {}}], ids=str)
def test_what_is_missing_is_told(kind: OldKind, fields: dict[str, Any]) -> None:
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
