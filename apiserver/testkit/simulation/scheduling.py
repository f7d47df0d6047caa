"""Chooses the node for a pod: the first one that it fits on, those with the fewest pods first. Pure.

It considers properties of nodes (unschedulable, taints, allocatable), nodeSelector, required node affinity
and host ports. Preferences, affinity among pods, topology spread, volumes and preemption are not.
Source of the rules: kubernetes, pkg/scheduler/framework/plugins; component-helpers, scheduling/corev1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from apiserver.catalogue.pod_specs.resource_totals import quantities, sum_of, total_of_pod
from apiserver.meta.conditions import is_condition_true
from apiserver.meta.quantity import Quantity, parse_quantity
from apiserver.meta.vocabulary import Document

SCHEDULER: Final = "default-scheduler"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_HARD: Final = ("NoSchedule", "NoExecute")
_ONE: Final = parse_quantity("1")
_ZERO: Final = parse_quantity("0")


def is_waiting(pod: Document) -> bool:
    """Returns whether this scheduler has to bind a pod."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", SCHEDULER) == SCHEDULER
        and "deletionTimestamp" not in pod["metadata"]
        and (pod.get("status") or {}).get("phase", "Pending") == "Pending"
    )


class PodRequirements(NamedTuple):
    """The resources and host ports of a node that a pod takes.

    ports: protocol, address and number of each host port.
    """

    resources: Mapping[str, Quantity]
    ports: frozenset[tuple[str, str, int]]

    @classmethod
    def of(cls, pod: Document) -> PodRequirements:
        spec = pod["spec"]
        resources = sum_of(total_of_pod(spec, "requests"), quantities(spec.get("overhead")))
        ports = frozenset(
            (port.get("protocol", "TCP"), port.get("hostIP") or "0.0.0.0", port["hostPort"])  # noqa: S104
            for container in (*spec["containers"], *(spec.get("initContainers") or ()))
            for port in container.get("ports") or ()
            if port.get("hostPort")
        )
        return cls({**resources, "pods": _ONE}, ports)


@dataclass(slots=True)
class NodeUse:
    """The resources that the pods on a node take, by pod uid."""

    pods: dict[str, PodRequirements] = field(default_factory=dict)
    total: dict[str, Quantity] = field(default_factory=dict)

    def add(self, uid: str, needs: PodRequirements) -> None:
        self.remove(uid)
        self.pods[uid] = needs
        self.total = sum_of(self.total, needs.resources)

    def remove(self, uid: str) -> None:
        needs = self.pods.pop(uid, None)
        if needs is not None:
            for name, amount in needs.resources.items():
                self.total[name] = self.total[name] - amount


def in_order(nodes: Iterable[Document], uses: Mapping[str, NodeUse]) -> list[str]:
    """Returns the names of nodes in the order in which a pod tries them. uses: those by node name."""
    unused = NodeUse()
    names = [node["metadata"]["name"] for node in nodes]
    return sorted(names, key=lambda name: (len(uses.get(name, unused).pods), _natural(name)))


def refusal(pod: Document, needs: PodRequirements, node: Document, use: NodeUse | None) -> str:
    """Returns why a pod cannot be bound to a node now; empty if it can. needs: those of the pod.

    All properties of the pod used here are part of its signature (`waiting_pods.signature_of`).
    """
    if not is_condition_true(node, "Ready"):
        return "node(s) were not ready"
    return why_not(pod, node) or _lack(needs, node, use or NodeUse())


def _natural(name: str) -> tuple[str, int]:
    """Returns a sort key that puts `simulated-10` after `simulated-9`."""
    digits = name[len(name.rstrip("0123456789")) :][-9:]
    return name.rstrip("0123456789"), int(digits or 0)


def unschedulable_message(refusals: Sequence[str]) -> str:
    """Returns why a pod is not bound, in the words of kube-scheduler."""
    if not refusals:
        return "no nodes available to schedule pods"
    counts = Counter(refusals)
    reasons = ", ".join(sorted(f"{count} {why}" for why, count in counts.items()))
    return f"0/{len(refusals)} nodes are available: {reasons}."


def why_not(pod: Document, node: Document) -> str:
    """Returns why a pod does not belong on a node, regardless of its resources; empty if it does.

    Readiness of the node is not checked: it has a taint for pods that have to wait for that.
    """
    spec, node_spec = pod["spec"], node.get("spec") or {}
    tolerations = spec.get("tolerations") or ()
    unschedulable = {"key": _UNSCHEDULABLE, "effect": "NoSchedule"}
    if node_spec.get("unschedulable") and not _is_tolerated(unschedulable, tolerations):
        return "node(s) were unschedulable"
    for taint in node_spec.get("taints") or ():
        if taint.get("effect") in _HARD and not _is_tolerated(taint, tolerations):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    if not _is_selected(spec, node):
        return "node(s) didn't match Pod's node affinity/selector"
    return ""


def may_stay(pod: Document, node: Document) -> bool:
    """Returns whether a pod on a node stays there, even if it would not be bound to it now."""
    spec = pod["spec"]
    evicting = [
        taint for taint in (node.get("spec") or {}).get("taints") or () if taint.get("effect") == "NoExecute"
    ]
    tolerations = spec.get("tolerations") or ()
    return _is_selected(spec, node) and all(_is_tolerated(taint, tolerations) for taint in evicting)


def _is_tolerated(taint: Document, tolerations: Iterable[Document]) -> bool:
    for each in tolerations:
        if each.get("effect") and each["effect"] != taint.get("effect"):
            continue
        if each.get("key") and each["key"] != taint.get("key"):
            continue
        if each.get("operator", "Equal") == "Exists" or (
            each.get("key") and each.get("value", "") == taint.get("value", "")
        ):
            return True
    return False


def _is_selected(spec: Document, node: Document) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    terms = required_terms(spec)
    if terms is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_matches(term, labels, fields) for term in terms)


def required_terms(spec: Document) -> Sequence[Document] | None:
    """Returns the terms of a required node affinity, one of which a node must match; None if there are none.

    spec: that of a pod.
    """
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or ()


def _matches(term: Document, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    expressions, of_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not (expressions or of_fields):
        return False  # An empty term selects nothing.
    return all(_meets(each, labels) for each in expressions) and all(
        _meets(each, fields) for each in of_fields
    )


def _meets(requirement: Document, labels: Mapping[str, str]) -> bool:
    found, values = labels.get(requirement["key"]), requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case operator:
            left, right = _integer(found), _integer(values[0] if values else None)
            if left is None or right is None:
                return False
            return left > right if operator == "Gt" else left < right


def _integer(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


def _lack(needs: PodRequirements, node: Document, use: NodeUse) -> str:
    """Returns the resources that a node lacks for a pod; empty if none."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    for name, amount in needs.resources.items():
        if not amount > _ZERO:
            continue
        there = parse_quantity(str(allocatable.get(name, "0")))
        used = use.total.get(name)
        if there < (used + amount if used is not None else amount):
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
    if needs.ports and any(_collide(needs.ports, each.ports) for each in use.pods.values()):
        return "node(s) didn't have free ports for the requested pod ports"
    return ""


def _collide(some: frozenset[tuple[str, str, int]], others: frozenset[tuple[str, str, int]]) -> bool:
    every = "0.0.0.0"  # noqa: S104  it stands for all addresses of the node
    return any(
        protocol == other_protocol and port == other_port and (address == other or every in (address, other))
        for protocol, address, port in some
        for other_protocol, other, other_port in others
    )
