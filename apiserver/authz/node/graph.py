"""Which objects are related to which nodes, by the pods that run there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from apiserver.authz.node.references import Reference, VolumeReferences

# A namespace and a name.
Place: TypeAlias = tuple[str, str]


class NodeGraph:
    """Look-up tables, which an informer keeps.

    is_complete: whether they have all that was stored. complete: returns when that is so, or raises
        TimeoutError at a deadline by the clock of the event loop; who calls it first has the tables filled.
        An informer sets it.
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
        # The nodes of VolumeAttachments and ResourceSlices, by name.
        self._attachments: dict[str, str] = {}
        self._slices: dict[str, str] = {}

    # ---- updates

    def put_pod(self, pod: Place, node: str, references: frozenset[Reference]) -> None:
        """Add or replace a pod. node: where it runs; empty if it runs nowhere."""
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
        """Add, replace or remove a persistent volume. references: None if it is gone, or is not bound."""
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

    def put_attachment(self, name: str, node: str) -> None:
        """node: empty if there is none, or the VolumeAttachment is gone."""
        _put(self._attachments, name, node)

    def put_slice(self, name: str, node: str) -> None:
        """node: empty if the ResourceSlice is of no single node, or is gone."""
        _put(self._slices, name, node)

    # ---- questions

    @property
    def is_empty(self) -> bool:
        return not (self._pods or self._nodes or self._volumes or self._attachments or self._slices)

    def node_of(self, pod: Place) -> str:
        """Returns where a pod runs; empty for one that is not known."""
        return self._pods.get(pod, ("", None))[0]

    def is_related(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Whether an object of a resource, named by its plural, is one that a node needs."""
        match resource:
            case "pods":
                found = self._pods.get((namespace, name))
                return found is not None and found[0] == node
            case "persistentvolumes":
                return self._has_volume(node, name)
            case "volumeattachments":
                return self._attachments.get(name) == node
            case "resourceslices":
                return self._slices.get(name) == node
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


def _put(nodes: dict[str, str], name: str, node: str) -> None:
    if node:
        nodes[name] = node
    else:
        nodes.pop(name, None)
