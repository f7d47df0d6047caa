"""Finds the desired number of pods of their owners, by the owners' scale.

Source: kubernetes, pkg/controller/disruption/disruption.go, getExpectedScale.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from apiserver.controllers.disruption.budgets import BudgetedPod
from apiserver.golang.quoting import go_quote
from apiserver.meta.errors import NotFound
from apiserver.meta.owners import controller_of
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.registry.served_resource import ScaleFields, ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.storage.interface import ANY

_APPS: Final = ("apps", "extensions")
# The resources whose changes the controller observes: groups and names. Others may have pods, too.
WATCHED: Final = (
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("apps", "replicasets"),
    ("apps", "deployments"),
    ("apps", "statefulsets"),
)


class NoScale(Exception):
    """The scale of a budget's pods cannot be determined; the message has the reason."""


class Scales:
    """Reads the scales of owners, each once per instance, which serves one pass over a namespace.

    has_asked_others: whether there were owners of other resources than WATCHED.
    """

    def __init__(self, registry: Registry, served: ServedTable, namespace: str) -> None:
        self._registry = registry
        self._served = served
        self._namespace = namespace
        # By the uid of a pod's owner: whose scale counts, and how much it is; None if there is no such owner.
        self._known: dict[str, tuple[str, int] | None] = {}
        self.has_asked_others = False

    async def expected(self, pods: Iterable[BudgetedPod]) -> int:
        """Returns the total number of pods that the owners want. Raises NoScale, and the storage's errors.

        Pods without an owner do not count.
        """
        found: dict[str, int] = {}
        for pod in pods:
            if pod.owner is None:
                continue
            uid = pod.owner.get("uid", "")
            if uid not in self._known:
                self._known[uid] = await self._scale_of_owner(pod.owner)
            scale = self._known[uid]
            if scale is None:
                raise NoScale(f"found no controllers for pod {go_quote(pod.name)}")
            found[scale[0]] = scale[1]
        return sum(found.values())

    async def _scale_of_owner(self, owner: Document) -> tuple[str, int] | None:
        document, resource = await self._read(owner)
        if document is None:
            return None
        if _is_of_apps(owner, "ReplicaSet"):
            above = controller_of(document)
            if above is not None and _is_of_apps(above, "Deployment"):
                document, resource = await self._read(above)
                if document is None:
                    return None
        scale = resource.subresources.get("scale")
        if scale is None or scale.scale is None:
            raise NoScale(f"{_dotted(resource)} does not implement the scale subresource")
        replicas = _replicas(document, scale.scale)
        if replicas is None:
            raise NoScale(f"{_dotted(resource)} {go_quote(document['metadata']['name'])} has no replicas")
        return document["metadata"]["uid"], replicas

    async def _read(self, owner: Document) -> tuple[Document | None, ServedResource]:
        """Returns an owner; None if it does not exist, or another object has its name. Raises NoScale."""
        resource = self._resource_of(owner)
        namespace = self._namespace if resource.is_namespaced else ""
        try:
            found = await self._registry.get(resource, namespace, owner.get("name", ""), ANY)
        except NotFound:
            return None, resource
        document = await self._registry.offload.document(found)
        return (document if document["metadata"]["uid"] == owner.get("uid") else None), resource

    def _resource_of(self, owner: Document) -> ServedResource:
        """Returns the resource of an owner."""
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        group, _, version = api_version.rpartition("/")
        group_version = GroupVersion("apps", "v1") if group in _APPS else GroupVersion(group, version)
        for each in self._served.current.group_versions.get(group_version, ()):
            if each.kind == kind:
                self.has_asked_others |= (each.group_version.group, each.resource) not in WATCHED
                return each
        raise NoScale(f"no matches for kind {go_quote(kind)} in version {go_quote(api_version)}")


def _is_of_apps(owner: Document, kind: str) -> bool:
    group = owner.get("apiVersion", "").rpartition("/")[0]
    return owner.get("kind") == kind and group in _APPS


def _dotted(resource: ServedResource) -> str:
    return str(resource.group_resource)


def _replicas(document: Document, fields: ScaleFields) -> int | None:
    value: Any = document
    for step in fields.replicas:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else fields.default
