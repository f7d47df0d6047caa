"""Tracks the objects related to each node, by the pods that run there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from apiserver.auth.authz.node.references import Reference, VolumeReferences

# A namespace and a name.
Place: TypeAlias = tuple[str, str]
# Resources whose objects name their node themselves.
BOUND: Final = ("volumeattachments", "resourceslices", "podcertificaterequests")


class NodeGraph:
    """Tables of related objects, which an informer keeps up to date.

    is_complete: whether they have all stored objects. complete: waits until they do, or raises TimeoutError
        at a deadline by the clock of the event loop; the first call fills the tables. An informer sets it.
    """

    def __init__(self) -> None:
        self.is_complete = False
        self.complete: Callable[[float], Awaitable[None]] | None = None
        # The node of each pod, and what the pod refers to.
        self._pods: dict[Place, tuple[str, frozenset[Reference]]] = {}
        # By object: by node, how many of its pods refer to it.
        self._nodes: dict[Reference, dict[str, int]] = {}
        self._volumes: dict[str, VolumeReferences] = {}
        # The volumes that have a Secret.
        self._secret_volumes: dict[Place, set[str]] = {}
        # By resource: the nodes of the objects that name one themselves.
        self._bound: dict[str, dict[Place, str]] = {resource: {} for resource in BOUND}

    # ---- updates

    def put_pod(self, pod: Place, node: str, references: frozenset[Reference]) -> None:
        """Add or replace a pod. node: the one where it runs; empty if it runs nowhere."""
        if self._pods.get(pod) == (node, references):
            return
        self.remove_pod(pod)
        if not node:
            return
        self._pods[pod] = node, references
        for each in references:
            nodes = self._nodes.setdefault(each, {})
            nodes[node] = nodes.get(node, 0) + 1

    def remove_pod(self, pod: Place) -> None:
        node, references = self._pods.pop(pod, ("", frozenset()))
        for each in references:
            nodes = self._nodes[each]
            nodes[node] -= 1
            if not nodes[node]:
                del nodes[node]
                if not nodes:
                    del self._nodes[each]

    def put_volume(self, name: str, references: VolumeReferences | None) -> None:
        """Add, replace or remove a persistent volume. references: None if it is deleted, or not bound."""
        before = self._volumes.pop(name, None)
        for secret in before.secrets if before is not None else ():
            volumes = self._secret_volumes[secret]
            volumes.discard(name)
            if not volumes:
                del self._secret_volumes[secret]
        if references is None:
            return
        self._volumes[name] = references
        for secret in references.secrets:
            self._secret_volumes.setdefault(secret, set()).add(name)

    def put_bound(self, resource: str, place: Place, node: str) -> None:
        """Add, replace or remove an object of one of `BOUND`. node: empty if it names none, or is deleted."""
        if node:
            self._bound[resource][place] = node
        else:
            self._bound[resource].pop(place, None)

    # ---- questions

    @property
    def is_empty(self) -> bool:
        return not (self._pods or self._nodes or self._volumes or any(self._bound.values()))

    def node_of(self, pod: Place) -> str:
        """Returns the node of a pod; empty if the pod is unknown."""
        return self._pods.get(pod, ("", None))[0]

    def is_related(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Returns whether a node needs an object of a resource, named by its plural."""
        if resource in self._bound:
            return self._bound[resource].get((namespace, name)) == node
        if resource == "pods":
            return self.node_of((namespace, name)) == node
        if resource == "persistentvolumes":
            return not namespace and self._has_volume(node, name)
        if self._refers(node, resource, namespace, name):
            return True
        if resource != "secrets":
            return False
        return any(self._has_volume(node, each) for each in self._secret_volumes.get((namespace, name), ()))

    def _has_volume(self, node: str, name: str) -> bool:
        volume = self._volumes.get(name)
        return volume is not None and self._refers(node, "persistentvolumeclaims", *volume.claim)

    def _refers(self, node: str, resource: str, namespace: str, name: str) -> bool:
        return node in self._nodes.get(Reference(resource, namespace, name), ())
