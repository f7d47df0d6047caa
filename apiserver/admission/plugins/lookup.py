"""Where plugins find other objects, and how they refuse a write."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apiserver.admission.chain import Write
from apiserver.errors import Forbidden, NotFound
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import Document, GroupResource
from storage.interface import ANY, MOST_RECENT
from storage.keys import prefix_range

Table = Callable[[], ResourceTable]


class Lookup:
    """The objects of one type. A type that is not served has none."""

    def __init__(self, registry: Registry, table: Table, group: str, resource: str) -> None:
        self.group_resource = GroupResource(group, resource)
        self._registry = registry
        self._table = table

    @property
    def served(self) -> ServedResource | None:
        return self._table().find(self.group_resource.group, "v1", self.group_resource.resource)

    async def find(self, name: str, namespace: str = "") -> Document | None:
        """The object as it is cached; where there is none, as it is stored. Raises the storage's errors."""
        resource = self.served
        if resource is None:
            return None
        try:
            return (await self._registry.get(resource, namespace, name, ANY)).document()
        except NotFound:
            return await self.find_stored(name, namespace)

    async def find_stored(self, name: str, namespace: str = "") -> Document | None:
        """The object as it is stored now. Raises the storage's errors."""
        resource = self.served
        if resource is None:
            return None
        try:
            return (await self._registry.get(resource, namespace, name, MOST_RECENT)).document()
        except NotFound:
            return None

    async def all(self, namespace: str = "") -> Sequence[StoredObject]:
        """All objects, or those of a namespace, by name, as they are cached and kept.

        Raises the storage's errors, and CorruptObject.
        """
        resource = self.served
        if resource is None:
            return ()
        prefix = self._registry.prefix_of(resource)
        listing = await self._registry.cache.list(
            prefix_range(f"{prefix}{namespace}/" if namespace else prefix), ANY
        )
        found = [version.value for version in listing.versions if version.value is not None]
        for each in found:
            each.require_sound()
        return found


async def default_class(classes: Lookup, *annotations: str) -> str | None:
    """The name of the class that one of `annotations` makes the default: the newest one, if it is several."""
    marked = []
    for each in await classes.all():
        if b"is-default-class" in each.tail:
            meta = each.document()["metadata"]
            found = meta.get("annotations") or {}
            if any(found.get(name) == "true" for name in annotations):
                marked.append(meta)
    # Of those made in the same second the first by name, and they come by name.
    newest = max(marked, key=lambda meta: meta["creationTimestamp"], default=None)
    return newest["name"] if newest is not None else None


def refused(write: Write, document: Document, why: str) -> Forbidden:
    """The refusal of a write, about an object that may have no name yet."""
    meta = document["metadata"]
    name = write.name or meta.get("name") or meta.get("generateName") or "Unknown"
    return Forbidden.to_resource(write.resource.group_resource, name, why)
