"""Gets other objects for plugins, and makes the errors by which they refuse a write."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apiserver.admission.chain import AdmissionAttributes
from apiserver.meta.errors import Forbidden, NotFound
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.served_resource import ResourceTable, ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.event_loop_turns import in_turns
from apiserver.storage.interface import ANY, MOST_RECENT, ReadAt
from apiserver.storage.keys import prefix_range


class Lister:
    """Gets and lists the objects of one resource; a resource that is not served has none.

    offload: the server's, which decodes large objects.
    """

    def __init__(self, registry: Registry, served: ServedTable, group: str, resource: str) -> None:
        self.group_resource = GroupResource(group, resource)
        self.offload = registry.offload
        self._registry = registry
        self._served = served
        # All objects of the resource, the prefix of their keys, and the state of the cache that they are of.
        self._kept: tuple[str, tuple[int, int], Sequence[StoredObject]] | None = None

    @property
    def served(self) -> ServedResource | None:
        return self._place()[0]

    async def get_document(self, name: str, namespace: str = "") -> Document | None:
        """Returns the cached object, or else the stored one. Raises the storage's errors."""
        found = await self.get(name, namespace)
        return await self.offload.document(found) if found is not None else None

    async def require_document(self, name: str) -> Document:
        """Returns the result of `get_document`, which must exist. Raises NotFound, and the storage's
        errors.
        """
        found = await self.get_document(name)
        if found is None:
            raise NotFound(self.group_resource, name)
        return found

    async def get(self, name: str, namespace: str = "") -> StoredObject | None:
        """Returns the result of `get_document`, without decoding the object."""
        resource = self.served
        if resource is None:
            return None
        try:
            return await self._registry.get(resource, namespace, name, ANY)
        except NotFound:
            return await self._get_stored(resource, name, namespace)

    async def get_live_document(self, name: str, namespace: str = "") -> Document | None:
        """Returns the currently stored object. Raises the storage's errors."""
        found = await self.get_live(name, namespace)
        return await self.offload.document(found) if found is not None else None

    async def get_live(self, name: str, namespace: str = "") -> StoredObject | None:
        """Returns the result of `get_live_document`, without decoding the object."""
        resource = self.served
        return await self._get_stored(resource, name, namespace) if resource is not None else None

    async def list(self, namespace: str = "") -> Sequence[StoredObject]:
        """Returns all cached objects, or those of a namespace, by name.

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
        if kept is None or kept[1] != state or kept[0] != prefix:
            kept = self._kept = prefix, state, await self._list(prefix)
        return kept[2]

    @property
    def is_complete(self) -> bool:
        """Whether the cache has all objects."""
        return self._registry.cache.is_filled

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever the cached objects have changed, or may have.

        This works for resources that are served from the start.
        """
        resource, prefix = self._place()
        if resource is not None:
            self._registry.cache.on_change(prefix, changed)

    async def list_with_damaged(self) -> Sequence[StoredObject]:
        """Returns all cached objects by name, including unreadable ones. Raises the storage's errors."""
        resource, prefix = self._place()
        if resource is None:
            return ()
        listing = await self._registry.cache.list(prefix_range(prefix), ANY)
        return [version.value for version in listing.versions if version.value is not None]

    async def list_live(self, namespace: str) -> Sequence[StoredObject]:
        """Returns the currently stored objects of a namespace, by name.

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
        """Returns the resource as currently served, and the prefix of its keys."""
        return self._served.current.derived(self, self._placed)

    def _placed(self, table: ResourceTable) -> tuple[ServedResource | None, str]:
        resource = table.hub(*self.group_resource)
        return resource, self._registry.prefix_of(resource) if resource is not None else ""

    async def _get_stored(self, resource: ServedResource, name: str, namespace: str) -> StoredObject | None:
        try:
            return await self._registry.get(resource, namespace, name, MOST_RECENT)
        except NotFound:
            return None


async def default_class(classes: Lister, *annotations: str) -> str | None:
    """Returns the name of the newest class that one of `annotations` makes the default."""
    marked = []
    async for each in in_turns(await classes.list()):
        if b"is-default-class" in each.tail:
            meta = await classes.offload.read(each, lambda document: document["metadata"])
            found = meta.get("annotations") or {}
            if any(found.get(name) == "true" for name in annotations):
                marked.append(meta)
    # Of those created in the same second it is the first by name: they are listed by name.
    newest = max(marked, key=lambda meta: meta["creationTimestamp"], default=None)
    return newest["name"] if newest is not None else None


def refused(attributes: AdmissionAttributes, document: Document | None, why: str) -> Forbidden:
    """Returns the error that refuses a write. document: the new object, if there is one."""
    name = refused_name(attributes, document)
    return Forbidden.to_resource(attributes.resource.group_resource, name, why)


def refused_name(attributes: AdmissionAttributes, document: Document | None) -> str:
    """Returns the name of the object of a refused write, which may have been generated meanwhile, or not yet.

    Source: k8s.io/apiserver, pkg/admission/errors.go, extractResourceName.
    """
    meta = (document or {}).get("metadata") or {}
    return attributes.name or meta.get("name") or meta.get("generateName") or "Unknown"
