"""Tells the RBAC authorizer what roles and bindings there are."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from apiserver.authz.rbac.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Policy
from apiserver.authz.rbac.rules import Malformed
from apiserver.controllers.informer import follow_for_ever
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.vocabulary import Document

log = logging.getLogger(__name__)

_KINDS: Final = {
    "roles": ROLE,
    "clusterroles": CLUSTER_ROLE,
    "rolebindings": ROLE_BINDING,
    "clusterrolebindings": CLUSTER_ROLE_BINDING,
}


class RbacPolicyInformer:
    """Keeps a `Policy` as the store has it, as soon as the watch cache knows."""

    def __init__(self, registry: Registry, table: ResourceTable, group: str, policy: Policy) -> None:
        """group: of RBAC's types, all of which the table has."""
        self._registry, self._policy = registry, policy
        self._resources = {
            kind: resource
            for plural, kind in _KINDS.items()
            if (resource := table.find(group, "v1", plural)) is not None
        }
        self._unlisted = set(self._resources)
        self._is_complete = asyncio.Event()

    async def wait_until_complete(self) -> None:
        """Return when the policy has all that was stored."""
        await self._is_complete.wait()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind, resource in self._resources.items():
                tasks.create_task(self._follow(kind, resource), name=f"rbac-{resource.resource}")

    async def _follow(self, kind: str, resource: ServedResource) -> None:
        prefix = self._registry.prefix_of(resource)

        def on_listed(keys: set[str]) -> None:
            for namespace, name in self._policy.names(kind):
                if self._registry.key(resource, namespace, name) not in keys:
                    self._policy.remove(kind, namespace, name)
            self._unlisted.discard(kind)
            if not self._unlisted:
                self._is_complete.set()

        def on_object(key: str, found: StoredObject | None) -> None:
            self._learn(kind, key.removeprefix(prefix), found)

        await follow_for_ever(self._registry.cache, prefix, on_object, on_listed=on_listed)

    def _learn(self, kind: str, place: str, found: StoredObject | None) -> None:
        """place: the namespace, if it has one, and the name, as keys end."""
        namespace, _, name = place.rpartition("/")
        if found is not None:
            try:
                self._policy.put(kind, _sound(found.document(), namespace, name))
            except (CorruptObject, Malformed) as error:
                log.error("the %s stored at %s gives nobody anything: %s", kind, place, error)
            else:
                return
        self._policy.remove(kind, namespace, name)


def _sound(document: Document, namespace: str, name: str) -> Document:
    """A document that says itself where it is stored: what it grants depends on it. Raises Malformed."""
    metadata = document["metadata"]
    if (metadata.get("namespace", ""), metadata.get("name")) != (namespace, name):
        raise Malformed("it says to be another one")
    return document
