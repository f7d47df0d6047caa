"""The plan of a workload controller: objects to create, change and delete, and a status. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from apiserver.meta.conditions import set_condition
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.testkit.simulation.workloads.failed_pods import DaemonSetNode


class CreateObject(NamedTuple):
    resource: GroupResource
    document: Document


class UpdateObject(NamedTuple):
    """A change of one object. found: the version that was read.

    change: changes the newest version in place; returns False if there is nothing to do.
    """

    resource: GroupResource
    found: Document
    change: Callable[[Document], bool]


class DeleteObject(NamedTuple):
    resource: GroupResource
    found: Document


@dataclass(slots=True)
class WorkloadPlan:
    """The actions for one workload, in this order.

    adoptions: those of objects that the rest of the plan counts as the workload's: if one fails, a new plan
        is made.
    status: the new one; None if it is not written. again_s: in how many seconds it may change by itself.
    failed_status: returns the status after a failed creation, given the reason.
    failed_at: the nodes where failed pods of a DaemonSet are deleted.
    """

    adoptions: list[UpdateObject] = field(default_factory=list)
    updates: list[UpdateObject] = field(default_factory=list)
    deletes: list[DeleteObject] = field(default_factory=list)
    creates: list[CreateObject] = field(default_factory=list)
    status: Document | None = None
    again_s: float | None = None
    failed_status: Callable[[str], Document] | None = None
    failed_at: list[DaemonSetNode] = field(default_factory=list)

    def look_again(self, seconds: float | None) -> None:
        if seconds is not None:
            self.again_s = seconds if self.again_s is None else min(self.again_s, seconds)

    @property
    def changes_objects(self) -> bool:
        return bool(self.adoptions or self.updates or self.deletes or self.creates)


def with_condition(conditions: Sequence[Document], wanted: Document, now: str) -> list[Document]:
    """Returns conditions with one set as by `set_condition`, in its place or at the end.

    A condition without a transition time, as clients may write it, gets one.
    """
    known = [
        {"lastTransitionTime": now, **each} if each.get("type") == wanted["type"] else each
        for each in conditions
    ]
    status: Document = {"conditions": known}
    set_condition({"status": status}, wanted, now)
    found: list[Document] = status["conditions"]
    return found


def conditions_of(owner: Document) -> list[Document]:
    return [dict(each) for each in (owner.get("status") or {}).get("conditions") or ()]
