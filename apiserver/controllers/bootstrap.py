"""Creates the objects that every server has at the start: namespaces, priority classes and APIServices.

Existing objects are not changed. Source: kubernetes, pkg/registry/scheduling/rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import orjson

from apiserver.catalogue.apiregistration import local_api_services
from apiserver.catalogue.core.namespaces import new_namespace
from apiserver.catalogue.scheduling.priority_classes import SYSTEM_CLASSES
from apiserver.meta.brand import Brand
from apiserver.meta.errors import AlreadyExists, ApiError
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.write_request import KUBE_APISERVER, ProposedObject, WriteRequest
from apiserver.storage.errors import StorageError

log = logging.getLogger(__name__)

RETRY_S: Final = 0.5
SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_DESCRIPTIONS: Final = {
    "system-node-critical": "For pods of the system that must stay on the node where they are.",
    "system-cluster-critical": "For pods of the system that must run, but can run on any node.",
}


class BootstrapObject(NamedTuple):
    resource: ServedResource
    document: Document

    def __str__(self) -> str:
        return "/".join(filter(None, (self.resource.kind, self.namespace, self.name)))

    @property
    def namespace(self) -> str:
        namespace: str = self.document["metadata"].get("namespace", "")
        return namespace

    @property
    def name(self) -> str:
        name: str = self.document["metadata"]["name"]
        return name

    def exists_in(self, registry: Registry) -> bool:
        """Whether the watch cache has the object."""
        return registry.cache.get_cached(registry.key(self.resource, self.namespace, self.name)) is not None


class BootstrapHook(NamedTuple):
    """A post-start hook that creates objects, before which the server is not ready.

    name: that of the health check.
    """

    name: str
    objects: tuple[BootstrapObject, ...]

    async def run(self, registry: Registry) -> None:
        """Create the missing objects, and return when all exist."""
        await registry.cache.wait_until_filled()
        async with asyncio.TaskGroup() as tasks:
            for each in self.objects:
                if not each.exists_in(registry):
                    tasks.create_task(_ensure(registry, each))


def bootstrap_hooks(
    table: ResourceTable, brand: Brand, *, registers_api_services: bool = True
) -> Iterator[BootstrapHook]:
    """Returns the hooks for those of the resources that are served."""
    namespaces = {name: new_namespace(name, brand) for name in SYSTEM_NAMESPACES}
    hooks: dict[str, tuple[str, str, dict[str, Document]]] = {
        "start-system-namespaces-controller": ("", "namespaces", namespaces),
        "scheduling/bootstrap-system-priority-classes": (
            brand.group("scheduling"),
            "priorityclasses",
            _priority_classes(),
        ),
        "apiservice-registration-controller": (
            local_api_services.group_of(brand),
            "apiservices",
            _api_services(table, brand) if registers_api_services else {},
        ),
    }
    for hook, (group, resource, by_name) in hooks.items():
        served = table.hub(group, resource)
        if served is not None and by_name:
            objects = (BootstrapObject(served, _document(served, *each)) for each in by_name.items())
            yield BootstrapHook(hook, tuple(objects))


def _priority_classes() -> dict[str, Document]:
    return {
        name: {"value": value, "description": _DESCRIPTIONS[name], "preemptionPolicy": "PreemptLowerPriority"}
        for name, value in SYSTEM_CLASSES.items()
    }


def _api_services(table: ResourceTable, brand: Brand) -> dict[str, Document]:
    """Returns an APIService for each version that this server itself serves."""
    labels = {local_api_services.automanaged_label(brand): local_api_services.ON_START}
    return {
        local_api_services.name_of(each): {
            "metadata": {"labels": labels},
            "spec": local_api_services.local_spec(each, local_api_services.builtin_priority(brand, each)),
        }
        for each in table.group_versions
        if each.group != local_api_services.group_of(brand)
    }


def _document(resource: ServedResource, name: str, fields: Document) -> Document:
    metadata = {"name": name, **fields.get("metadata", {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **fields, "metadata": metadata}


async def _ensure(registry: Registry, wanted: BootstrapObject) -> None:
    """Create an object that does not exist."""
    request = WriteRequest(
        resource=wanted.resource, namespace=wanted.namespace, name=wanted.name, writer=KUBE_APISERVER
    )
    while True:
        try:
            if not wanted.exists_in(registry):
                with suppress(AlreadyExists):  # Another server was faster.
                    await registry.create(
                        request, ProposedObject(orjson.loads(orjson.dumps(wanted.document)))
                    )
        except (ApiError, StorageError) as error:
            log.warning("cannot create %s, retrying: %s", wanted, error)
            await asyncio.sleep(RETRY_S)
        except Exception:  # An object that breaks us must not keep the server from starting.
            log.exception("cannot look up %s", wanted)
            return
        else:
            return
