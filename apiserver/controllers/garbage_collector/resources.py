"""Finds the collected resources, and the resource that an owner reference means.

Source of the rules: kubernetes, pkg/controller/garbagecollector, GetDeletableResources and
DefaultIgnoredResources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry

_VERBS: Final = frozenset({"delete", "list", "watch"})
# They come and go by themselves, and there are too many of them.
_IGNORED: Final = frozenset({("", "events"), ("events.k8s.io", "events")})


class ObjectLocation(NamedTuple):
    """The resource, namespace and name that the key of an object means."""

    resource: ServedResource
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource.group_resource} {where}"


class Resources:
    """The collected resources of one table of served resources.

    by_prefix: the resources by the prefix of their keys. Of several versions the stored one is used, which
        needs no conversion.
    """

    def __init__(self, table: ResourceTable, registry: Registry) -> None:
        self.table = table
        self._registry = registry
        self._by_kind: dict[tuple[str, str], ServedResource] = {}
        by_prefix: dict[str, ServedResource] = {}
        for each in table.resources:
            if each.verbs == ("create",) or each.is_virtual:
                continue  # Neither a review nor a virtual object is stored.
            self._by_kind.setdefault((each.api_version, each.kind), each)
            if _VERBS.issubset(each.verbs) and each.stored_group_resource not in _IGNORED:
                prefix = registry.prefix_of(each)
                if prefix not in by_prefix or each.codec.stored_head == each.head:
                    by_prefix[prefix] = each
        self.by_prefix: Mapping[str, ServedResource] = by_prefix

    def of_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """Returns the resource that an owner reference means; None if it is not served."""
        return self._by_kind.get((api_version, kind))

    def place(self, key: str) -> ObjectLocation | None:
        """Returns the location that a key means; None if its resource is not collected."""
        folder, _, name = key.rpartition("/")
        resource = self.by_prefix.get(f"{folder}/")
        if resource is not None and not resource.is_namespaced:
            return ObjectLocation(resource, "", name)
        prefix, _, namespace = folder.rpartition("/")
        resource = self.by_prefix.get(f"{prefix}/")
        return (
            ObjectLocation(resource, namespace, name)
            if resource is not None and resource.is_namespaced
            else None
        )

    def owner_key(self, owner: ServedResource, namespace: str, name: str) -> str:
        """Returns the key where an owner would be stored. namespace: that of its dependent."""
        return self._registry.key(owner, namespace, name)
