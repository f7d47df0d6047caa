"""Group versions that an APIService delegates to an extension API server.

This server has no cluster network on which it could reach one, so such versions are unavailable. They are not
unknown, though: clients may try again. Source: k8s.io/kube-aggregator, pkg/apiserver.
"""

from __future__ import annotations

from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry


class DelegatedVersions:
    """Looks for the APIServices in the watch cache."""

    def __init__(self, registry: Registry, served: ServedTable, group: str) -> None:
        """group: of APIServices."""
        self._registry = registry
        self._served = served
        self._group = group

    def has(self, group: str, version: str) -> bool:
        """Returns whether a stored APIService names a service for the group and version."""
        services = self._served.find(self._group, "v1", "apiservices")
        if services is None:
            return False
        found = self._registry.cache.get_cached(self._registry.key(services, "", f"{version}.{group}"))
        if found is None or found.value is None or not found.value.head:
            return False
        return bool(found.value.document().get("spec", {}).get("service"))
