"""Creates the objects that every server has: the system's namespaces and priority classes, the mandatory and
the suggested flow control, and the APIServices of what this server serves itself.
kube-apiserver creates them itself, whatever controllers run.

They are created at the start if they do not exist. Flow control is not executed: this server has one limit
for all requests.
Source: kubernetes, pkg/registry/{scheduling,flowcontrol}/rest; k8s.io/apiserver, flowcontrol/bootstrap.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from apiserver.brand import Brand
from apiserver.catalogue.apiregistration import local_api_services
from apiserver.catalogue.flowcontrol.defaults import FLOW_SCHEMAS, PRIORITY_LEVELS
from apiserver.catalogue.scheduling.priority_classes import SYSTEM_CLASSES
from apiserver.errors import AlreadyExists, ApiError, NotFound
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.write_request import Draft, WriteRequest
from apiserver.vocabulary import Document
from storage.errors import StorageError

log = logging.getLogger(__name__)

_Status: TypeAlias = Callable[[Document], Document]

RETRY_S: Final = 0.5
# The server itself writes the status: nothing is copied from the stored object.
_BY_SERVER: Final = UpdateStrategy()
SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_DESCRIPTIONS: Final = {
    "system-node-critical": "For pods of the system that must stay on the node where they are.",
    "system-cluster-critical": "For pods of the system that must run, on whatever node they do.",
}
# Kubernetes updates objects with this annotation by itself; other tools see from it who maintains them.
_AUTOUPDATED: Final = {"apf.kubernetes.io/autoupdate-spec": "true"}


@dataclass(frozen=True, slots=True)
class BootstrapObject:
    """One object. status: returns the status of the object that was created; None if it is to have none."""

    resource: ServedResource
    document: Document
    status: Callable[[Document], Document] | None = None

    def __str__(self) -> str:
        meta = self.document["metadata"]
        return "/".join(filter(None, (self.resource.kind, meta.get("namespace"), meta["name"])))


@dataclass(frozen=True, slots=True)
class BootstrapHook:
    """A post-start hook: the server is ready once its objects exist. name: of the health check."""

    name: str
    objects: tuple[BootstrapObject, ...]

    async def run(self, registry: Registry) -> None:
        """Create the objects that do not exist. Returns when all do."""
        await registry.cache.wait_until_filled()
        async with asyncio.TaskGroup() as tasks:
            for each in self.objects:
                tasks.create_task(_ensure(registry, each))


def bootstrap_hooks(table: ResourceTable, brand: Brand) -> Iterator[BootstrapHook]:
    """The hooks for those of the resources that are served."""
    flow_control = brand.group("flowcontrol.apiserver")
    namespaces: dict[str, Document] = {name: {} for name in SYSTEM_NAMESPACES}
    hooks: dict[str, tuple[tuple[str, str, dict[str, Document], _Status | None], ...]] = {
        "start-system-namespaces-controller": (("", "namespaces", namespaces, None),),
        "scheduling/bootstrap-system-priority-classes": (
            (brand.group("scheduling"), "priorityclasses", _priority_classes(), None),
        ),
        "priority-and-fairness-config-producer": (
            (flow_control, "flowschemas", _autoupdated(FLOW_SCHEMAS), _not_dangling),
            (flow_control, "prioritylevelconfigurations", _autoupdated(PRIORITY_LEVELS), None),
        ),
        "apiservice-registration-controller": (
            (local_api_services.group_of(brand), "apiservices", _api_services(table, brand), None),
        ),
    }
    for hook, resources in hooks.items():
        objects = tuple(
            BootstrapObject(served, _document(served, name, fields), status)
            for group, resource, by_name, status in resources
            if (served := table.find(group, "v1", resource)) is not None
            for name, fields in by_name.items()
        )
        if objects:
            yield BootstrapHook(hook, objects)


def _priority_classes() -> dict[str, Document]:
    return {
        name: {"value": value, "description": _DESCRIPTIONS[name], "preemptionPolicy": "PreemptLowerPriority"}
        for name, value in SYSTEM_CLASSES.items()
    }


def _autoupdated(specs: Mapping[str, Document]) -> dict[str, Document]:
    return {name: {"metadata": {"annotations": _AUTOUPDATED}, "spec": spec} for name, spec in specs.items()}


def _not_dangling(flow_schema: Document) -> Document:
    """Returns the status of a FlowSchema whose priority level exists."""
    level = flow_schema["spec"]["priorityLevelConfiguration"]["name"]
    message = (
        f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" and it exists'
    )
    return condition(flow_schema, "Dangling", "False", "Found", message)


def _api_services(table: ResourceTable, brand: Brand) -> dict[str, Document]:
    """Returns an APIService for each version that this server serves by itself."""
    labels = {local_api_services.automanaged_label(brand): local_api_services.ON_START}
    return {
        local_api_services.name_of(each): {
            "metadata": {"labels": labels},
            "spec": local_api_services.local_spec(each, local_api_services.builtin_priority(brand, each)),
        }
        for each in table.group_versions
        if each.group != local_api_services.group_of(brand)
    }


def condition(document: Document, kind: str, status: str, reason: str, message: str) -> Document:
    """Returns a status with a condition that holds since the object was created."""
    since = document["metadata"]["creationTimestamp"]
    found = {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason}
    return {"conditions": [{**found, "message": message}]}


def _document(resource: ServedResource, name: str, fields: Document) -> Document:
    document = copy.deepcopy(fields)
    document["metadata"] = {"name": name, **document.get("metadata", {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **document}


async def _ensure(registry: Registry, wanted: BootstrapObject) -> None:
    """Create an object that does not exist, and give it its status if it has none."""
    meta = wanted.document["metadata"]
    namespace, name = meta.get("namespace", ""), meta["name"]
    request = WriteRequest(resource=wanted.resource, namespace=namespace, name=name, update=_BY_SERVER)

    def with_status(found: StoredObject) -> Draft:
        document = found.document()
        assert wanted.status is not None
        return Draft({**document, "status": document.get("status") or wanted.status(document)})

    while True:
        try:
            cached = registry.cache.get_cached(registry.key(wanted.resource, namespace, name))
            if cached is None:
                with suppress(AlreadyExists):  # Another server was faster.
                    await registry.create(request, Draft(copy.deepcopy(wanted.document)))
            has_status = (
                cached is not None and cached.value is not None and cached.value.document().get("status")
            )
            if wanted.status is not None and not has_status:
                await registry.update(request, with_status)
        except NotFound:
            return  # Somebody has deleted it at once.
        except CorruptObject as error:
            log.warning("%s cannot be read: %s", wanted, error)
            return
        except (ApiError, StorageError) as error:
            log.warning("%s cannot be created yet: %s", wanted, error)
            await asyncio.sleep(RETRY_S)
        else:
            return
