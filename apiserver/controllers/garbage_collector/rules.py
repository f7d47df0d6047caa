"""Decides whether the garbage collector deletes an object, by the states of its owners. Pure.

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
    """The state of an owner.

    SOLID: it exists. WAITING: it is being deleted in the foreground, and waits for its dependents. ABSENT: it
    does not exist, and never will. UNKNOWN: its kind is not served, or may not own such an object.
    """

    SOLID = enum.auto()
    WAITING = enum.auto()
    ABSENT = enum.auto()
    UNKNOWN = enum.auto()


class Release(NamedTuple):
    """The object is kept, without references to owners that are gone, or about to be."""

    references: frozenset[OwnerReference]


class Collect(NamedTuple):
    """The object has to be deleted. propagation: the policy for its own dependents."""

    propagation: str


def judge(
    ownership: Ownership, states: Sequence[OwnerState], *, has_dependents: bool
) -> Release | Collect | None:
    """Returns the decision about an object that is not being deleted; None if nothing has to be done.

    states: those of its owners, in their order, up to the first unknown one. has_dependents: whether it has
        dependents itself.
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
            return Collect(propagation)  # The client that set it wants it.
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
    """Change blocking owner references so that the owners may be removed before the object."""
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
