"""Applies that change nothing, and are known to."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject

# Of how many objects, and for each of how many applies, it is remembered that they change nothing.
SETTLED_OBJECTS_MAX: Final = 20_000
SETTLED_DIGESTS_MAX: Final = 8


class Settled:
    """What has been applied to a version of an object and changed nothing, and would change nothing again.

    Controllers apply the same body at every turn. It is known by a digest of all that an apply says.
    """

    def __init__(self) -> None:
        # Together with what stands for the resource: with its schema the meaning of a body may change.
        self._digests: WeakKeyDictionary[StoredObject, set[tuple[object, bytes]]] = WeakKeyDictionary()

    def knows(self, current: StoredObject, resource: ServedResource, digest: bytes) -> bool:
        return (resource.token, digest) in self._digests.get(current, ())

    def remember(self, current: StoredObject, resource: ServedResource, digest: bytes) -> None:
        if len(self._digests) >= SETTLED_OBJECTS_MAX:
            self._digests.clear()
        digests = self._digests.setdefault(current, set())
        if len(digests) >= SETTLED_DIGESTS_MAX:
            digests.clear()
        digests.add((resource.token, digest))
