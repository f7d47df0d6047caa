"""The store keys of objects, by resource, namespace and name. Pure."""

from __future__ import annotations

from apiserver.registry.served_resource import ServedResource
from storage.keys import object_key, resource_prefix


class ObjectKeys:
    """prefix: of all keys, as `/registry`."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def of(self, resource: ServedResource, namespace: str, name: str) -> str:
        """Paths of Namespaces look as if these lay in themselves; no cluster-scoped object has a folder."""
        return object_key(self.of_all(resource), namespace if resource.is_namespaced else "", name)

    def of_all(self, resource: ServedResource) -> str:
        """The prefix of the keys of all objects of a resource."""
        return resource_prefix(self.prefix, *resource.stored_group_resource)
