"""What is to become of an object, by what has become of its owners. Pure.

Source: kubernetes, pkg/controller/garbagecollector/garbagecollector.go, attemptToDeleteItem.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from apiserver.controllers.garbage_collector.object_owners import OwnerReference, Ownership
from apiserver.meta.object_meta import FINALIZER_FOREGROUND, FINALIZER_ORPHAN
from apiserver.meta.vocabulary import Document


class OwnerState(enum.Enum):
    """What has become of an owner.

    SOLID: it is there. WAITING: it is being deleted in the foreground, and waits for its dependents.
    ABSENT: it is not there, and never will be. UNKNOWN: nobody can tell, because its kind is not served, or
    may not own such an object.
    """

    SOLID = enum.auto()
    WAITING = enum.auto()
    ABSENT = enum.auto()
    UNKNOWN = enum.auto()


class Release(NamedTuple):
    """The object stays, without references to owners that are gone, or about to go."""

    references: frozenset[OwnerReference]


class Collect(NamedTuple):
    """The object is to be deleted. propagation: the policy for its own dependents."""

    propagation: str


def judge(
    ownership: Ownership, states: Sequence[OwnerState], *, has_dependents: bool
) -> Release | Collect | None:
    """Returns what is to become of an object that is not being deleted; None if nothing is to be done.

    states: of its owners, in their order; whoever is not known ends them. has_dependents: it has dependents
        itself.
    """
    if not states or OwnerState.UNKNOWN in states:
        return None
    if OwnerState.SOLID in states:
        leaving = frozenset(
            owner
            for owner, state in zip(ownership.owners, states, strict=True)
            if state is not OwnerState.SOLID
        )
        # Owners that wait for it would never go.
        return Release(leaving) if leaving else None
    if OwnerState.WAITING in states and has_dependents:
        return Collect("Foreground")
    for finalizer, propagation in _POLICIES.items():
        if finalizer in ownership.finalizers:
            return Collect(propagation)  # Whoever set it wants it so.
    return Collect("Background")


_POLICIES: Final[Mapping[str, str]] = {FINALIZER_ORPHAN: "Orphan", FINALIZER_FOREGROUND: "Foreground"}


# ---- changes of metadata, in place


def without_references(meta: Document, references: frozenset[OwnerReference]) -> None:
    """Remove some owner references."""
    leaving = {reference[:4] for reference in references}
    left = [
        each
        for each in meta.get("ownerReferences") or ()
        if (each["apiVersion"], each["kind"], each["name"], each["uid"]) not in leaving
    ]
    _keep_references(meta, left)


def without_owner(meta: Document, uid: str) -> None:
    """Remove the references to one owner."""
    _keep_references(meta, [each for each in meta.get("ownerReferences") or () if each["uid"] != uid])


def without_blocking(meta: Document) -> None:
    """Let the owners go before the object."""
    meta["ownerReferences"] = [
        {**each, "blockOwnerDeletion": False} if each.get("blockOwnerDeletion") else each
        for each in meta.get("ownerReferences") or ()
    ]


def without_finalizer(meta: Document, finalizer: str) -> None:
    left = [each for each in meta.get("finalizers") or () if each != finalizer]
    if left:
        meta["finalizers"] = left
    else:
        meta.pop("finalizers", None)


def _keep_references(meta: Document, references: list[Document]) -> None:
    if references:
        meta["ownerReferences"] = references
    else:
        meta.pop("ownerReferences", None)
