"""Configuration of admission that is stored and not carried out."""

from __future__ import annotations

import pytest

from apiserver.catalogue import admissionregistration
from apiserver.catalogue.builtin_type import BuiltinType

TYPES = {each.resource: each for each in admissionregistration.types()}


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_all_types_of_the_group_warn(kind: BuiltinType) -> None:
    """Of what is new, and of what changes in more than its metadata and status."""
    new = {"metadata": {"name": "a"}, "spec": {"a": 1}, "webhooks": [], "status": {}}
    (warning,) = kind.strategy.warn(new, None)
    assert warning.endswith("is stored, and has no effect")
    for field, warnings in (("spec", [warning]), ("webhooks", [warning]), ("metadata", []), ("status", [])):
        assert kind.strategy.warn({**new, field: {"other": 1}}, new) == warnings
