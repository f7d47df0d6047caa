"""StorageObjectInUseProtection: which objects get a finalizer when they are created."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.admission.chain import Operation
from apiserver.admission.plugins.new_object_defaults import StorageObjectInUseProtection
from apiserver.meta.vocabulary import GroupResource

CLASSES: Final = GroupResource("storage.k8s.io", "volumeattributesclasses")
HANDLED: Final = {
    "volumes": (GroupResource("", "persistentvolumes"), "", Operation.CREATE, {True, False}),
    "claims": (GroupResource("", "persistentvolumeclaims"), "", Operation.CREATE, {True, False}),
    "classes while their gate is on": (CLASSES, "", Operation.CREATE, {True}),
    "no updates": (CLASSES, "", Operation.UPDATE, set[bool]()),
    "no status": (GroupResource("", "persistentvolumes"), "status", Operation.UPDATE, set[bool]()),
    "no other classes": (
        GroupResource("storage.k8s.io", "storageclasses"),
        "",
        Operation.CREATE,
        set[bool](),
    ),
}


@pytest.mark.parametrize(("resource", "subresource", "operation", "states"), HANDLED.values(), ids=HANDLED)
def test_what_is_protected(
    resource: GroupResource, subresource: str, operation: Operation, states: set[bool]
) -> None:
    """states: of the gate VolumeAttributesClass."""
    for is_on in (True, False):
        plugin = StorageObjectInUseProtection("storage.k8s.io", protects_classes=is_on)
        assert plugin.handles(resource, subresource, operation) is (is_on in states)
