"""Where plugins find other objects, and how they refuse a write."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apiserver.admission.chain import Write
from apiserver.errors import Forbidden, NotFound
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import Document, GroupResource
from storage.interface import ANY, MOST_RECENT, ReadAt
from storage.keys import prefix_range

Table = Callable[[], ResourceTable]


class Lister:
    """The objects of one type. A type that is not served has none."""

    def __init__(self, registry: Registry, table: Table, group: str, resource: str) -> None:
        self.group_resource = GroupResource(group, resource)
        self._registry = registry
        self._table = table
        # What was found in the table, and the table: it is another one when something is served anew.
        self._found: tuple[ResourceTable, ServedResource | None, str] | None = None
        # All objects of the type, and of which state of the cache.
        self._kept: tuple[tuple[int, int], Sequence[StoredObject]] | None = None

    @property
    def served(self) -> ServedResource | None:
        return self._place()[0]

    async def find(self, name: str, namespace: str = "") -> Document | None:
        """The object as it is cached; where there is none, as it is stored. Raises the storage's errors."""
        found = await self.find_kept(name, namespace)
        return found.document() if found is not None else None

    async def find_kept(self, name: str, namespace: str = "") -> StoredObject | None:
        """As `find`, but what the cache keeps, for who does not need all of it."""
        resource = self.served
        if resource is None:
            return None
        try:
            return await self._registry.get(resource, namespace, name, ANY)
        except NotFound:
            return await self._get_stored(resource, name, namespace)

    async def get_live_document(self, name: str, namespace: str = "") -> Document | None:
        """The object as it is stored now. Raises the storage's errors."""
        resource = self.served
        found = await self._get_stored(resource, name, namespace) if resource is not None else None
        return found.document() if found is not None else None

    async def all(self, namespace: str = "") -> Sequence[StoredObject]:
        """All objects, or those of a namespace, by name, as they are cached and kept.

        Raises the storage's errors, and CorruptObject.
        """
        resource, prefix = self._place()
        cache = self._registry.cache
        if resource is None or cache.is_empty(prefix, namespace):
            return ()
        if namespace or not cache.is_filled:
            return await self._list(f"{prefix}{namespace}/" if namespace else prefix)
        state = cache.version_stamp(prefix)
        kept = self._kept
        if kept is None or kept[0] != state:
            kept = self._kept = state, await self._list(prefix)
        return kept[1]

    async def list_live(self, namespace: str) -> Sequence[StoredObject]:
        """All objects of a namespace, by name, as they are stored now.

        Raises the storage's errors, and CorruptObject.
        """
        resource, prefix = self._place()
        return await self._list(f"{prefix}{namespace}/", MOST_RECENT) if resource is not None else ()

    async def _list(self, prefix: str, at: ReadAt = ANY) -> Sequence[StoredObject]:
        listing = await self._registry.cache.list(prefix_range(prefix), at)
        found = [version.value for version in listing.versions if version.value is not None]
        for each in found:
            each.require_sound()
        return found

    def _place(self) -> tuple[ServedResource | None, str]:
        """The type as it is served now, and the prefix of its keys."""
        table = self._table()
        if self._found is None or self._found[0] is not table:
            resource = table.find(self.group_resource.group, "v1", self.group_resource.resource)
            self._found = table, resource, self._registry.prefix_of(resource) if resource is not None else ""
            self._kept = None
        return self._found[1:]

    async def _get_stored(self, resource: ServedResource, name: str, namespace: str) -> StoredObject | None:
        try:
            return await self._registry.get(resource, namespace, name, MOST_RECENT)
        except NotFound:
            return None


async def default_class(classes: Lister, *annotations: str) -> str | None:
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
