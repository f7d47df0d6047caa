"""Tells the RBAC authorizer which roles and bindings are stored."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from apiserver.authz.rbac.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, RbacPolicy
from apiserver.authz.rbac.rules import Malformed
from apiserver.controllers.informer import Informer, ListWatch, Notification
from apiserver.registry.served_resource import ResourceTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject
from apiserver.vocabulary import Document

log = logging.getLogger(__name__)

_KINDS: Final = {
    "roles": ROLE,
    "clusterroles": CLUSTER_ROLE,
    "rolebindings": ROLE_BINDING,
    "clusterrolebindings": CLUSTER_ROLE_BINDING,
}


class RbacPolicyInformer:
    """Keeps an `RbacPolicy` up to date with the watch cache."""

    def __init__(self, registry: Registry, table: ResourceTable, group: str, policy: RbacPolicy) -> None:
        """group: the API group of RBAC's types, all of which the table has."""
        self._policy = policy
        self._informers = [
            Informer(
                ListWatch(registry.cache, registry.prefix_of(resource)),
                partial(self._on_object, kind),
                reports_missed_deletions=True,
            )
            for plural, kind in _KINDS.items()
            if (resource := table.hub(group, plural)) is not None
        ]

    async def wait_until_complete(self) -> None:
        """Return when the policy has all that was stored."""
        for informer in self._informers:
            await informer.has_synced.wait()

    async def run(self) -> None:
        """Keep the policy up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run(), name="rbac-policy")

    def _on_object(self, kind: str, notification: Notification) -> None:
        namespace, name = notification.namespace, notification.name
        if notification.new is None:
            self._policy.remove(kind, namespace, name)
            return
        try:
            self._policy.put(kind, _sound(notification.new.document(), namespace, name))
        except Exception as error:
            # Whatever is stored now, what was granted before is not.
            self._policy.remove(kind, namespace, name)
            if not isinstance(error, CorruptObject | Malformed):
                raise
            place = f"{namespace}/{name}" if namespace else name
            log.error("the %s stored at %s gives nobody anything: %s", kind, place, error)


def _sound(document: Document, namespace: str, name: str) -> Document:
    """Returns the document if it names the place where it is stored, since what it grants depends on that.

    Raises Malformed.
    """
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        raise Malformed("it has no metadata")
    if (metadata.get("namespace", ""), metadata.get("name")) != (namespace, name):
        raise Malformed("its name or namespace is not that of its key")
    return document
