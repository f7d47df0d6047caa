"""Fields that pod groups, composite groups, and the templates of both have in common (1.37).

Source: k8s.io/api/scheduling/v1alpha3, the declarative rules; pkg/registry/scheduling (release 1.37).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from apiserver.catalogue.scheduling.scheduling_policies import (
    MIN_COUNT,
    validate_policy,
    validate_policy_update,
)
from apiserver.meta import names
from apiserver.meta.field_errors import Errors
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import keep_status
from apiserver.schema.validation.checks import (
    at_most,
    exactly_one,
    follows,
    immutable_fields,
    max_items,
    named,
    one_of_if_set,
)
from apiserver.schema.validation.documents import items

COMPOSITE_GATE: Final = "CompositePodGroup"
# Fields that objects have only if a feature is on.
_OF_GATES: Final = {
    "parentCompositePodGroupName": COMPOSITE_GATE,
    "compositePodGroupTemplates": COMPOSITE_GATE,
    "schedulingConstraints": "TopologyAwareWorkloadScheduling",
    "preemptionPolicy": "PodGroupPreemptionPolicy",
}
# A field of a feature (DRAWorkloadResourceClaims) that this server does not have.
_UNKNOWN: Final = "resourceClaims"
_PRIORITY_MAX: Final = 1_000_000_000  # HighestUserDefinablePriority
_TOPOLOGIES_MAX: Final = 1
_MODES: Final = ("single", "all")
_PREEMPTION_POLICIES: Final = ("Never", "PreemptLowerPriority")
# What stays as it is, besides the policy.
IMMUTABLE_FIELDS: Final = (
    *("schedulingConstraints", "disruptionMode", "priorityClassName", "priority", "preemptionPolicy"),
)


def disabled_fields(gates: FeatureGates | None) -> frozenset[str]:
    """Returns the fields that are removed from objects. gates: None if all are on."""
    off = (field for field, gate in _OF_GATES.items() if gates is not None and not gates.is_on(gate))
    return frozenset({_UNKNOWN, *off})


def drop(group: Document, fields: Iterable[str], old: Document | None = None) -> None:
    """Removes some fields, unless the stored group, `old`, already has them."""
    for field in fields:
        if old is None or old.get(field) is None:
            group.pop(field, None)


def prepare_new_group(disabled: frozenset[str], document: Document) -> None:
    document["status"] = {}
    drop(document.get("spec") or {}, disabled)


def prepare_group(disabled: frozenset[str], new: Document, old: Document) -> None:
    keep_status(new, old)
    drop(new.get("spec") or {}, disabled, old.get("spec") or {})


def complete(spec: Document) -> None:
    """Sets the default of a group, which templates do not have."""
    if spec.get("disruptionMode") is None:
        spec["disruptionMode"] = {"single": {}}


def validate_group(path: str, group: Document, count: str = MIN_COUNT) -> Errors:
    """Returns the errors in the fields of a group. count: see `scheduling_policies.validate_policy`."""
    errors = validate_policy(f"{path}.schedulingPolicy", group.get("schedulingPolicy") or {}, count)
    errors += _constraints(f"{path}.schedulingConstraints", group.get("schedulingConstraints") or {})
    if (mode := group.get("disruptionMode")) is not None:
        errors += exactly_one(f"{path}.disruptionMode", mode, _MODES)
    class_name = group.get("priorityClassName")
    errors += named(f"{path}.priorityClassName", class_name, names.dns_subdomain, is_required=False)
    errors += at_most(f"{path}.priority", group.get("priority"), _PRIORITY_MAX)
    policy = group.get("preemptionPolicy")
    return errors + one_of_if_set(f"{path}.preemptionPolicy", policy, _PREEMPTION_POLICIES)


def _constraints(path: str, constraints: Document) -> Errors:
    return max_items(f"{path}.topology", constraints.get("topology"), _TOPOLOGIES_MAX) or [
        error
        for where, each in items(constraints, "topology", path)
        for error in named(f"{where}.key", each.get("key"), names.qualified_name)
    ]


def validate_group_update(path: str, new: Document, old: Document) -> Errors:
    policy, before = (each.get("schedulingPolicy") or {} for each in (new, old))
    errors = validate_policy_update(f"{path}.schedulingPolicy", policy, before)
    return errors + immutable_fields(path, new, old, IMMUTABLE_FIELDS)


def validate_parent(spec: Document) -> Errors:
    field = "parentCompositePodGroupName"
    return follows(f"spec.{field}", spec.get(field), names.dns_subdomain)


def validate_workload_reference(path: str, reference: Document) -> Errors:
    errors = named(f"{path}.workloadName", reference.get("workloadName"), names.dns_subdomain)
    return errors + named(f"{path}.templateName", reference.get("templateName"), names.dns_label)
