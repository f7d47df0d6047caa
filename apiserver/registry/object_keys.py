"""The store keys of objects, by resource, namespace and name. Pure."""

from __future__ import annotations

from typing import Final

from apiserver.meta.errors import BadRequest
from apiserver.meta.field_errors import quote
from apiserver.meta.names import path_segment
from apiserver.registry.served_resource import ServedResource

_NO_SEGMENTS: Final = frozenset({".", ".."})


class ObjectKeys:
    """The keys of objects in the store. prefix: that of all keys, as `/registry`."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def of(self, resource: ServedResource, namespace: str, name: str) -> str:
        """Returns the key of an object. The keys of cluster-scoped objects, Namespaces included, have no
        namespace folder.

        Raises BadRequest for a name that is not a path segment, which no object has.
        """
        if "%" in name or name in _NO_SEGMENTS:
            raise BadRequest(f"Name parameter invalid: {quote(name)}: {path_segment(name)[0]}")
        if namespace and resource.is_namespaced:
            return f"{self.prefix}{resource.folder}{namespace}/{name}"
        return f"{self.prefix}{resource.folder}{name}"

    def of_all(self, resource: ServedResource) -> str:
        """Returns the prefix of the keys of all objects of a resource."""
        return f"{self.prefix}{resource.folder}"
