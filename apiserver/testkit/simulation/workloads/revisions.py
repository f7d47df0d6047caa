"""ControllerRevisions: the templates of a StatefulSet or a DaemonSet over time. Pure.

Source of the rules: kubernetes, pkg/controller/history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

from apiserver.meta.owners import controller_reference
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import REVISIONS
from apiserver.testkit.simulation.workloads.plans import (
    CreateObject,
    DeleteObject,
    UpdateObject,
    WorkloadPlan,
)
from apiserver.testkit.simulation.workloads.pods import copied_annotations, short_hash

HASH: Final = "controller-revision-hash"


class Revision(NamedTuple):
    """A ControllerRevision, by name.

    label: the value of the label HASH of its pods. template: of these pods.
    """

    name: str
    label: str
    template: Document


def revision_label(found: Document) -> str:
    """Returns the value of the label HASH; empty if there is none."""
    label: str = (found["metadata"].get("labels") or {}).get(HASH, "")
    return label


def current_revision(
    owner: Document, revisions: Sequence[Document], plan: WorkloadPlan, *, is_named: bool
) -> Revision:
    """Returns the revision of the template, which the plan creates or makes the newest if necessary.

    revisions: those of the owner. is_named: whether pods have the name of their revision as label, rather
        than its hash.
    """
    template = owner["spec"]["template"]
    data = {"spec": {"template": {**template, "$patch": "replace"}}}
    newest = max((each.get("revision", 0) for each in revisions), default=0)
    found = next((each for each in revisions if each.get("data") == data), None)
    code = short_hash(data)
    name = f"{owner['metadata']['name']}-{code}"
    if found is not None:
        if found.get("revision", 0) < newest:
            plan.updates.append(UpdateObject(REVISIONS, found, _renumbered(newest + 1)))
        name = found["metadata"]["name"]
        code = name.rpartition("-")[2]
    else:
        meta = owner["metadata"]
        label = name if is_named else code
        labels = (template.get("metadata") or {}).get("labels") or {}
        plan.creates.append(
            CreateObject(
                REVISIONS,
                {
                    "metadata": {
                        "name": name,
                        "namespace": meta["namespace"],
                        "labels": {**labels, HASH: label},
                        "annotations": copied_annotations(owner),
                        "ownerReferences": [controller_reference(owner)],
                    },
                    "data": _sorted(data),
                    "revision": newest + 1,
                },
            )
        )
    return Revision(name, name if is_named else code, template)


def _sorted(value: Any) -> Any:
    """Returns a copy with keys in the order in which Go encodes them, since clients compare encoded data."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def _renumbered(number: int) -> Callable[[Document], bool]:
    def renumber(found: Document) -> bool:
        if found.get("revision", 0) >= number:
            return False
        found["revision"] = number
        return True

    return renumber


def template_of(revisions: Sequence[Document], name: str) -> Document | None:
    """Returns the template of the revision with this name, if it still exists."""
    for each in revisions:
        if each["metadata"]["name"] == name:
            template = dict(((each.get("data") or {}).get("spec") or {}).get("template") or {})
            template.pop("$patch", None)
            return template or None
    return None


def forget_old(
    owner: Document, revisions: Sequence[Document], used: Collection[str], plan: WorkloadPlan
) -> None:
    """Delete the oldest revisions without pods, beyond the number kept for rollbacks."""
    limit = owner["spec"].get("revisionHistoryLimit", 10)
    unused = [each for each in revisions if each["metadata"]["name"] not in used]
    unused.sort(key=lambda each: each.get("revision", 0))
    plan.deletes += [DeleteObject(REVISIONS, each) for each in unused[: max(len(unused) - limit, 0)]]
