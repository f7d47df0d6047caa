"""What every server has from the start: the system's namespaces and priority classes, and flow control that
lets everybody in. kube-apiserver makes them itself, whatever controllers run.

Made if they are not there when the server starts. Kubernetes' suggestions for flow control are left out:
they divide the requests of a cluster's own parts among queues, and this server has one limit for all.
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
from apiserver.catalogue.flowcontrol.flow_schemas import MANDATORY_FLOW_SCHEMAS, MANDATORY_PRIORITY_LEVELS
from apiserver.catalogue.scheduling.priority_classes import SYSTEM_CLASSES
from apiserver.errors import AlreadyExists, ApiError
from apiserver.meta.options import WriteOptions
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.vocabulary import Document
from storage.errors import StorageError

log = logging.getLogger(__name__)

RETRY_S: Final = 0.5
SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_DESCRIPTIONS: Final = {
    "system-node-critical": "For pods of the system that must stay on the node where they are.",
    "system-cluster-critical": "For pods of the system that must run, on whatever node they do.",
}
# By this Kubernetes knows objects that it may bring up to date, and other tools whose they are.
_AUTOUPDATED: Final = {"apf.kubernetes.io/autoupdate-spec": "true"}


@dataclass(frozen=True, slots=True)
class BootstrapHook:
    """Objects that are there when a start hook is done."""

    hook: str
    objects: tuple[tuple[ServedResource, Document], ...]

    async def make(self, registry: Registry) -> None:
        """Return when all of them are there."""
        await registry.cache.wait_until_filled()
        async with asyncio.TaskGroup() as tasks:
            for resource, document in self.objects:
                if (
                    registry.cache.get_cached(registry.key(resource, "", document["metadata"]["name"]))
                    is None
                ):
                    tasks.create_task(_make(registry, resource, document))


def bootstrap_hooks(table: ResourceTable, brand: Brand) -> Iterator[BootstrapHook]:
    """Those of what is served."""
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


async def _make(registry: Registry, resource: ServedResource, document: Document) -> None:
    while True:
        try:
            await registry.create(resource, "", copy.deepcopy(document), WriteOptions())
        except AlreadyExists:
            return  # Another server was faster.
        except (ApiError, StorageError) as error:
            name = document["metadata"]["name"]
            log.warning("%s %s cannot be made yet: %s", resource.kind, name, error)
            await asyncio.sleep(RETRY_S)
        else:
            return
