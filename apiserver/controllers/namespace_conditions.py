"""The conditions of a namespace that is being deleted, about remaining objects and errors.

Source: kubernetes, pkg/controller/namespace/deletion, status_condition_utils.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.served_resource import ServedResource

# Resources, finalizers and errors in a message; a namespace must not become too large to be stored.
NAMED_MAX: Final = 100
FAILURES_MAX: Final = 1_000
MESSAGE_LENGTH_MAX: Final = 32 * 1024

_ENDED: Final = ("Failed", "Succeeded")
PODS: Final = GroupResource("", "pods")
# Type, and reason and message where nothing is wrong.
_TYPES: Final = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentRemoved", "All content successfully removed"),
)


@dataclass(slots=True)
class RemainingContent:
    """The remaining objects of a namespace after their deletion was requested.

    resources: the number of objects of each. finalizers: how many objects each of them holds.
    failures: the errors of resources whose objects could not be deleted.
    undiscovered: the group versions of other servers whose resources are unknown.
    """

    resources: Counter[GroupResource] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    undiscovered: list[str] = field(default_factory=list)
    _awaited: set[GroupResource] = field(default_factory=set)
    _pods_grace_s: int = 0

    def __bool__(self) -> bool:
        return bool(self.resources or self.failures or self.undiscovered)

    def add(self, resource: ServedResource, document: Document) -> None:
        """Count a remaining object."""
        self.resources[resource.group_resource] += 1
        if held_by := document["metadata"].get("finalizers"):
            self.finalizers.update(held_by)
            self._awaited.add(resource.group_resource)
        elif resource.group_resource == PODS and _phase(document) not in _ENDED:
            grace_s = document["spec"].get("terminationGracePeriodSeconds") or 0
            self._pods_grace_s = max(self._pods_grace_s, grace_s)

    def add_elsewhere(self, resource: GroupResource, finalizers: Iterable[str]) -> None:
        """Count a remaining object on another server."""
        self.resources[resource] += 1
        self.finalizers.update(finalizers)

    def conclude(self, resource: ServedResource, namespace: str, deleted_for_s: float) -> None:
        """Add an error if objects remain that neither a finalizer nor a kubelet holds.

        deleted_for_s: how long ago the deletion of the namespace was requested.
        """
        name = resource.group_resource
        is_graceful = name == PODS and deleted_for_s < self._pods_grace_s
        if self.resources[name] and name not in self._awaited and not is_graceful:
            group, version = resource.group_version
            self.fail(
                f"unexpected items still remain in namespace: {namespace} for gvr: "
                f"{group}/{version}, Resource={resource.resource}"
            )

    def fail(self, error: str) -> None:
        if len(self.failures) < FAILURES_MAX:
            self.failures.append(error)

    def conditions(self) -> list[Document]:
        """Returns a condition of each type, without the time of its last transition."""
        wrong = dict(self._wrong())
        return [
            {"type": kind, "status": "True", "reason": wrong[kind][0], "message": wrong[kind][1]}
            if kind in wrong
            else {"type": kind, "status": "False", "reason": reason, "message": message}
            for kind, reason, message in _TYPES
        ]

    def _wrong(self) -> Iterable[tuple[str, tuple[str, str]]]:
        """Returns the types of the conditions that are True, each with its reason and message."""
        if self.undiscovered:
            count = len(self.undiscovered)
            what = _listed(f"{each}: stale GroupVersion discovery: {each}" for each in self.undiscovered)
            message = (
                f"Discovery failed for some groups, {count} failing: unable to retrieve the complete list of "
                f"server APIs: {what}"
            )
            yield "NamespaceDeletionDiscoveryFailure", ("DiscoveryFailed", message)
        if self.failures:
            count, what = len(self.failures), _listed(self.failures)
            message = f"Failed to delete all resource types, {count} remaining: {what}"
            yield "NamespaceDeletionContentFailure", ("ContentDeletionFailed", message)
        if self.resources:
            texts = (
                f"{each.resource}.{each.group} has {count} resource instances"
                for each, count in self.resources.items()
            )
            message = f"Some resources are remaining: {_listed(texts)}"
            yield "NamespaceContentRemaining", ("SomeResourcesRemain", message)
        if self.finalizers:
            texts = (f"{name} in {count} resource instances" for name, count in self.finalizers.items())
            message = f"Some content in the namespace has finalizers remaining: {_listed(texts)}"
            yield "NamespaceFinalizersRemaining", ("SomeFinalizersRemain", message)


def _phase(pod: Document) -> str:
    return str(pod.get("status", {}).get("phase"))


def _listed(texts: Iterable[str]) -> str:
    """Returns the texts sorted, so that a message changes only with its content."""
    text = ", ".join(islice(sorted(texts), NAMED_MAX))
    return text if len(text) <= MESSAGE_LENGTH_MAX else f"{text[:MESSAGE_LENGTH_MAX]}..."
