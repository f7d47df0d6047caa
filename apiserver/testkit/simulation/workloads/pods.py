"""Pods as controllers of workloads see them: their owners, whether they count, and new ones. Pure.

Source of the rules: kubernetes, pkg/controller/controller_utils.go and controller_ref_manager.go.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import orjson

from apiserver.catalogue.common.workloads import int_or_percent_value
from apiserver.meta import timestamps
from apiserver.meta.conditions import find_condition, is_condition_true
from apiserver.meta.owners import controller_of, controller_reference
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.schema.validation.label_selectors import selects
from apiserver.testkit.simulation.workloads.plans import UpdateObject, WorkloadPlan

ENDED: Final = ("Succeeded", "Failed")
# Without vowels and what looks alike: k8s.io/apimachinery, pkg/util/rand.
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH: Final = 10


def is_terminating(found: Document) -> bool:
    return "deletionTimestamp" in found["metadata"]


def phase_of(pod: Document) -> str:
    phase: str = (pod.get("status") or {}).get("phase", "Pending")
    return phase


def is_active(pod: Document) -> bool:
    return phase_of(pod) not in ENDED and not is_terminating(pod)


def is_ready(pod: Document) -> bool:
    return is_condition_true(pod, "Ready")


def available_in_s(pod: Document, min_ready_s: float, now: float) -> float | None:
    """Returns in how many seconds a pod becomes available, at most 0 if it is; None if it is not ready."""
    condition = find_condition(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    if not min_ready_s:
        return 0.0
    since = timestamps.from_text(condition.get("lastTransitionTime") or "")
    return (since if since is not None else now) + min_ready_s - now


def is_available(pod: Document, min_ready_s: float, now: float) -> bool:
    wait_s = available_in_s(pod, min_ready_s, now)
    return wait_s is not None and wait_s <= 0 and not is_terminating(pod)


def count_available(pods: Iterable[Document], min_ready_s: float, now: float, plan: WorkloadPlan) -> int:
    """Returns how many pods are available, and schedules a new plan for when there are more."""
    waits = [available_in_s(pod, min_ready_s, now) for pod in pods]
    for wait_s in waits:
        if wait_s is not None and wait_s > 0:
            plan.look_again(wait_s)
    return sum(wait_s is not None and wait_s <= 0 for wait_s in waits)


def claim(
    owner: Document,
    resource: GroupResource,
    candidates: Iterable[Document],
    plan: WorkloadPlan,
    *,
    finalizer: str = "",
) -> list[Document]:
    """Returns the objects of an owner: those that its selector selects and that have no other controller.

    The plan adopts orphans, which are returned as adopted, and releases objects that are no longer selected.
    finalizer: the one that adopted objects get.
    """
    selector, uid = owner["spec"]["selector"], owner["metadata"]["uid"]
    may_change = not is_terminating(owner)
    claimed = []
    for each in candidates:
        manager = controller_of(each)
        if manager is not None and manager.get("uid") != uid:
            continue
        is_selected = selects(selector, each["metadata"].get("labels") or {})
        if manager is not None and is_selected:
            claimed.append(each)
        elif not may_change or is_terminating(each):
            continue
        elif manager is not None:
            plan.updates.append(UpdateObject(resource, each, _released(uid)))
        elif is_selected:
            adopt = _adopted(owner, finalizer)
            plan.adoptions.append(UpdateObject(resource, each, adopt))
            adopted = {**each, "metadata": copy.deepcopy(each["metadata"])}
            adopt(adopted)
            claimed.append(adopted)
    return claimed


def _adopted(owner: Document, finalizer: str) -> Callable[[Document], bool]:
    def adopt(found: Document) -> bool:
        if controller_of(found) is not None or is_terminating(found):
            return False
        owners = found["metadata"].get("ownerReferences") or []
        found["metadata"]["ownerReferences"] = [*owners, controller_reference(owner)]
        finalizers = found["metadata"].get("finalizers") or []
        if finalizer and finalizer not in finalizers:
            found["metadata"]["finalizers"] = [*finalizers, finalizer]
        return True

    return adopt


def _released(uid: str) -> Callable[[Document], bool]:
    def release(found: Document) -> bool:
        owners = found["metadata"].get("ownerReferences") or []
        kept = [each for each in owners if each.get("uid") != uid]
        found["metadata"]["ownerReferences"] = kept
        return len(kept) < len(owners)

    return release


def new_pod(owner: Document, template: Document, labels: Mapping[str, str], name: str = "") -> Document:
    """Returns a pod made from a template. labels: those beside the template's. name: generated, if empty."""
    meta = template.get("metadata") or {}
    found: Document = {"namespace": owner["metadata"]["namespace"]}
    if name:
        found["name"] = name
    else:
        found["generateName"] = f"{owner['metadata']['name']}-"
    found["labels"] = {**(meta.get("labels") or {}), **labels}
    if meta.get("annotations"):
        found["annotations"] = dict(meta["annotations"])
    if meta.get("finalizers"):
        found["finalizers"] = list(meta["finalizers"])
    found["ownerReferences"] = [controller_reference(owner)]
    return {"metadata": found, "spec": copy.deepcopy(template["spec"])}


def rolls_updates_out(owner: Document, field: str = "updateStrategy") -> bool:
    """Returns whether pods of old templates are replaced step by step. field: that of the strategy in the
    spec.
    """
    return bool((owner["spec"].get(field) or {}).get("type", "RollingUpdate") == "RollingUpdate")


def copied_annotations(owner: Document, *left_out: str) -> Document:
    """Returns the annotations of an owner that are copied to the objects it creates."""
    unwanted = {"kubectl.kubernetes.io/last-applied-configuration", *left_out}
    annotations = owner["metadata"].get("annotations") or {}
    return {key: text for key, text in annotations.items() if key not in unwanted}


def short_hash(content: object) -> str:
    """Returns a hash of a document that can be part of a name, and a label value."""
    digest = hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).digest()
    return "".join(_SAFE[byte % len(_SAFE)] for byte in digest[:_HASH_LENGTH])


def scaled(value: int | str | None, total: int, *, rounds_up: bool) -> int:
    """Returns a number, or a percentage of `total`."""
    number = int_or_percent_value(value)
    if not isinstance(value, str):
        return number
    return -(-number * total // 100) if rounds_up else number * total // 100


def created(found: Document) -> tuple[str, str]:
    """Returns a sort key by age, the oldest first."""
    meta = found["metadata"]
    return meta.get("creationTimestamp") or "", meta["name"]
