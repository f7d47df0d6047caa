"""Versions that another server has, as an APIService says.

This server knows no network of a cluster in which it could find one, so they are not available; but they are
not unknown, either: clients may try again. Source: k8s.io/kube-aggregator, pkg/apiserver.
"""

from __future__ import annotations

from collections.abc import Callable

from apiserver.registry.served_resource import ResourceTable
from apiserver.registry.store import Registry


class DelegatedVersions:
    def __init__(self, registry: Registry, table: Callable[[], ResourceTable], group: str) -> None:
        """group: of APIServices."""
        self._registry = registry
        self._table = table
        self._group = group

    def has(self, group: str, version: str) -> bool:
        """Whether a stored APIService says that a service answers for them."""
        services = self._table().find(self._group, "v1", "apiservices")
        if services is None:
            return False
        found = self._registry.cache.get_cached(self._registry.key(services, "", f"{version}.{group}"))
        if found is None or found.value is None or not found.value.head:
            return False
        return bool(found.value.document().get("spec", {}).get("service"))
