"""Keeps the RBAC authorizer informed of the stored roles and bindings."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from apiserver.auth.authz.rbac.policy import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
    Binding,
    RbacPolicy,
    Role,
    parse,
)
from apiserver.auth.authz.rbac.rules import CACHED_BYTES_MAX, CACHED_MAX, Malformed
from apiserver.controller_runtime.informer import Notification, resource_informer
from apiserver.load.offload import run_unqueued
from apiserver.load.size_class import size_class
from apiserver.meta.text_caches import text_cache
from apiserver.registry.served_resource import ResourceTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject, document_of_tail

log = logging.getLogger(__name__)

_KINDS: Final = {
    "roles": ROLE,
    "clusterroles": CLUSTER_ROLE,
    "rolebindings": ROLE_BINDING,
    "clusterrolebindings": CLUSTER_ROLE_BINDING,
}


class RbacPolicyInformer:
    """Keeps an `RbacPolicy` up to date with the watch cache, parsing large objects in a thread."""

    def __init__(self, registry: Registry, table: ResourceTable, group: str, policy: RbacPolicy) -> None:
        """group: the API group of RBAC's types, all of which the table has."""
        self._policy = policy
        self._informers = [
            resource_informer(
                registry, resource, partial(self._on_object, kind), reports_missed_deletions=True
            )
            for plural, kind in _KINDS.items()
            if (resource := table.hub(group, plural)) is not None
        ]

    async def wait_until_complete(self) -> None:
        """Return when the policy has all stored objects."""
        for informer in self._informers:
            await informer.has_synced.wait()

    async def run(self) -> None:
        """Keep the policy up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run(), name="rbac-policy")

    async def _on_object(self, kind: str, notification: Notification) -> None:
        namespace, name = notification.namespace, notification.name
        if notification.new is None:
            self._policy.remove(kind, namespace, name)
            return
        try:
            size = size_class(len(notification.new.tail))
            found = await run_unqueued(size, _read, kind, notification.new)
            if (found.namespace, found.name) != (namespace, name):  # What it grants depends on that.
                raise Malformed("the name or namespace does not match the key")
            self._policy.put_parsed(kind, found)
        except Exception as error:
            # Whatever is stored now, what was granted before is not.
            self._policy.remove(kind, namespace, name)
            if not isinstance(error, CorruptObject | Malformed):
                raise
            place = f"{namespace}/{name}" if namespace else name
            log.error("the %s stored at %s grants nothing: %s", kind, place, error)


def _read(kind: str, found: StoredObject) -> Role | Binding:
    """Returns a stored role or binding, parsed once per process. Raises CorruptObject, Malformed."""
    found.require_sound()
    return (_parsed if len(found.tail) <= CACHED_BYTES_MAX else _parse)(kind, found.tail)


def _parse(kind: str, tail: bytes) -> Role | Binding:
    """Returns a parsed role or binding. Raises Malformed."""
    document = document_of_tail(tail)
    metadata = document["metadata"]
    if not isinstance(metadata, dict):
        raise Malformed("the object has no metadata")
    if not all(isinstance(metadata.get(field, ""), str) for field in ("namespace", "name")):
        raise Malformed("the name or namespace is not a string")
    return parse(kind, {**document, "metadata": {"name": "", **metadata}})


_parsed: Final = text_cache(CACHED_MAX)(_parse)
