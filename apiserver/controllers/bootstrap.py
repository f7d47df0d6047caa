"""Creates the objects that every server has: the system's namespaces and priority classes, and the mandatory
flow control, which lets everybody in. kube-apiserver creates them itself, whatever controllers run.

They are created at the start if they do not exist. Kubernetes' suggested flow control is left out: it divides
the requests of a cluster's own components among queues, and this server has one limit for all.
Source: kubernetes, pkg/registry/{scheduling,flowcontrol}/rest; k8s.io/apiserver, flowcontrol/bootstrap.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from apiserver.brand import Brand
from apiserver.catalogue.flowcontrol.flow_schemas import MANDATORY_FLOW_SCHEMAS
from apiserver.catalogue.flowcontrol.priority_level_configurations import MANDATORY_PRIORITY_LEVELS
from apiserver.catalogue.scheduling.priority_classes import SYSTEM_CLASSES
from apiserver.errors import AlreadyExists, ApiError
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.write_request import Draft, WriteRequest
from apiserver.vocabulary import Document
from storage.errors import StorageError

log = logging.getLogger(__name__)

RETRY_S: Final = 0.5
SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_DESCRIPTIONS: Final = {
    "system-node-critical": "For pods of the system that must stay on the node where they are.",
    "system-cluster-critical": "For pods of the system that must run, on whatever node they do.",
}
# Kubernetes updates objects with this annotation by itself; other tools see from it who maintains them.
_AUTOUPDATED: Final = {"apf.kubernetes.io/autoupdate-spec": "true"}


@dataclass(frozen=True, slots=True)
class BootstrapHook:
    """A post-start hook: the server is ready once its objects exist. name: of the health check."""

    name: str
    objects: tuple[tuple[ServedResource, Document], ...]

    async def run(self, registry: Registry) -> None:
        """Create the objects that do not exist. Returns when all do."""
        await registry.cache.wait_until_filled()
        async with asyncio.TaskGroup() as tasks:
            for resource, document in self.objects:
                key = registry.key(resource, "", document["metadata"]["name"])
                if registry.cache.get_cached(key) is None:
                    tasks.create_task(_create(registry, resource, document))


def bootstrap_hooks(table: ResourceTable, brand: Brand) -> Iterator[BootstrapHook]:
    """The hooks for those of the resources that are served."""
    flow_control = brand.group("flowcontrol.apiserver")
    namespaces: dict[str, Document] = {name: {} for name in SYSTEM_NAMESPACES}
    hooks: dict[str, tuple[tuple[str, str, dict[str, Document]], ...]] = {
        "start-system-namespaces-controller": (("", "namespaces", namespaces),),
        "scheduling/bootstrap-system-priority-classes": (
            (brand.group("scheduling"), "priorityclasses", _priority_classes()),
        ),
        "priority-and-fairness-config-producer": (
            (flow_control, "flowschemas", _autoupdated(MANDATORY_FLOW_SCHEMAS)),
            (flow_control, "prioritylevelconfigurations", _autoupdated(MANDATORY_PRIORITY_LEVELS)),
        ),
    }
    for hook, resources in hooks.items():
        objects = tuple(
            (served, _document(served, name, fields))
            for group, resource, by_name in resources
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


def _document(resource: ServedResource, name: str, fields: Document) -> Document:
    document = copy.deepcopy(fields)
    document["metadata"] = {"name": name, **document.get("metadata", {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **document}


async def _create(registry: Registry, resource: ServedResource, document: Document) -> None:
    while True:
        try:
            request = WriteRequest(resource=resource, namespace="", name=document["metadata"]["name"])
            await registry.create(request, Draft(copy.deepcopy(document)))
        except AlreadyExists:
            return  # Another server was faster.
        except (ApiError, StorageError) as error:
            name = document["metadata"]["name"]
            log.warning("%s %s cannot be created yet: %s", resource.kind, name, error)
            await asyncio.sleep(RETRY_S)
        else:
            return
