"""Workloads and PodGroups as release 1.37 has them, in v1beta1 and v1alpha3, which differ in names only.

That release has no v1alpha2 any more. What is stored in it, or in v1alpha1, is read as v1beta1.
Source: k8s.io/api/scheduling/v1beta1, the declarative rules; pkg/registry/scheduling (release 1.37).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import hub_of, other_version
from apiserver.catalogue.scheduling import pod_groups, workloads
from apiserver.catalogue.scheduling.scheduling_policies import (
    exactly_one,
    validate_policy,
    validate_policy_update,
)
from apiserver.field_errors import Errors, duplicate, forbidden, invalid, too_many
from apiserver.meta import names, table
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.validation.checks import immutable, named
from apiserver.validation.documents import at, items
from apiserver.vocabulary import Document

_PACKAGE: Final = "io.k8s.api.scheduling.v1beta1"
_TEMPLATES: Final = "podGroupTemplates"
_COMPOSITE: Final = "compositePodGroupTemplates"
_TEMPLATES_MAX: Final = 8
_PRIORITY_MAX: Final = 1_000_000_000  # HighestUserDefinablePriority
_MODES: Final = ("single", "all")
# Fields of features that are off by default, which this server does not have.
_DISABLED: Final = (
    "schedulingConstraints",
    "resourceClaims",
    "preemptionPolicy",
    "parentCompositePodGroupName",
)
# What stays as it is in groups and in templates of them, besides their policy.
_IMMUTABLE: Final = ("disruptionMode", "priorityClassName", "priority")


def types() -> tuple[BuiltinType, ...]:
    groups, works = _pod_groups(), _workloads()
    old_groups = hub_of(groups, to_workload_ref, to_template_ref)
    old_works = hub_of(works, workloads.to_v1alpha2, workloads.to_v1alpha1)
    return (
        groups,
        other_version(groups, "v1alpha3"),
        other_version(groups, "v1alpha2", defaults={}, hub=old_groups),
        works,
        other_version(works, "v1alpha3"),
        other_version(works, "v1alpha2"),
        other_version(works, "v1alpha1", hub=old_works),
    )


# ---- pod groups


def _pod_groups() -> BuiltinType:
    return BuiltinType(
        "scheduling.",
        "v1beta1",
        "podgroups",
        "PodGroup",
        f"{_PACKAGE}.PodGroup",
        subresources=(
            Subresource(
                "status",
                update=UpdateStrategy(
                    pod_groups.take_status, pod_groups.validate_status, resets=("metadata", "spec")
                ),
            ),
        ),
        defaults={f"{_PACKAGE}.PodGroupSpec": _complete_group},
        strategy=Strategy(
            prepare_create=_prepare_new_group,
            validate=_validate_group,
            update=UpdateStrategy(_prepare_group, _validate_group_update),
        ),
        columns=table.DEFAULT,
        feature_gates=(pod_groups.GATE,),
    )


def _complete_group(spec: Document) -> None:
    if spec.get("disruptionMode") is None:
        spec["disruptionMode"] = {"single": {}}


def _prepare_new_group(document: Document) -> None:
    document["status"] = {}
    _drop_disabled(document.get("spec", {}))


def _prepare_group(new: Document, old: Document) -> None:
    keep_status(new, old)
    _drop_disabled(new.get("spec", {}))


def _drop_disabled(group: Document) -> None:
    for field in _DISABLED:
        group.pop(field, None)


def _validate_group(document: Document) -> Errors:
    spec, errors = document.get("spec", {}), Errors()
    if (reference := spec.get("workloadRef")) is not None:
        path = "spec.workloadRef"
        errors += named(f"{path}.workloadName", reference.get("workloadName"), names.dns_subdomain)
        errors += named(f"{path}.templateName", reference.get("templateName"), names.dns_label)
    return errors + _group("spec", spec)


def _group(path: str, group: Document) -> Errors:
    """Checks what groups and their templates have in common."""
    errors = validate_policy(f"{path}.schedulingPolicy", group.get("schedulingPolicy") or {})
    if (mode := group.get("disruptionMode")) is not None:
        errors += exactly_one(f"{path}.disruptionMode", mode, _MODES)
    class_name, priority = group.get("priorityClassName"), group.get("priority")
    errors += named(f"{path}.priorityClassName", class_name, names.dns_subdomain, is_required=False)
    if priority is not None and priority > _PRIORITY_MAX:
        errors.append(invalid(f"{path}.priority", priority, f"must be less than or equal to {_PRIORITY_MAX}"))
    return errors


def _group_update(path: str, new: Document, old: Document) -> Errors:
    policy, before = (each.get("schedulingPolicy") or {} for each in (new, old))
    errors = validate_policy_update(f"{path}.schedulingPolicy", policy, before)
    for field in _IMMUTABLE:
        errors += immutable(f"{path}.{field}", new.get(field), old.get(field))
    return errors


def _validate_group_update(new: Document, old: Document) -> Errors:
    spec, before = new.get("spec", {}), old.get("spec", {})
    errors = immutable("spec.workloadRef", spec.get("workloadRef"), before.get("workloadRef"))
    return errors + _group_update("spec", spec, before)


# ---- workloads


def _workloads() -> BuiltinType:
    return BuiltinType(
        "scheduling.",
        "v1beta1",
        "workloads",
        "Workload",
        f"{_PACKAGE}.Workload",
        strategy=Strategy(
            prepare_create=_prepare_workload,
            validate=_validate_workload,
            update=UpdateStrategy(_prepare_workload, _validate_workload_update),
        ),
        columns=table.DEFAULT,
        feature_gates=(pod_groups.GATE,),
    )


def _prepare_workload(new: Document, old: Document | None = None) -> None:
    spec = new.get("spec", {})
    spec.pop(_COMPOSITE, None)
    for template in spec.get(_TEMPLATES) or ():
        _drop_disabled(template)


def _validate_workload(document: Document) -> Errors:
    errors, spec = workloads.validate_controller(document), document.get("spec", {})
    count, path = len(spec.get(_TEMPLATES) or ()), f"spec.{_TEMPLATES}"
    if not count:
        return [*errors, invalid("spec", "", f"must specify one of: `{_TEMPLATES}`, `{_COMPOSITE}`")]
    if count > _TEMPLATES_MAX:
        return [*errors, too_many(path, count, _TEMPLATES_MAX)]
    seen: set[str] = set()
    for where, template in items(spec, _TEMPLATES, "spec"):
        name = template.get("name", "")
        if name in seen:
            errors.append(duplicate(where, name))
        seen.add(name)
        errors += named(f"{where}.name", name, names.dns_label)
        errors += _group(where, template)
    return errors


def _validate_workload_update(new: Document, old: Document) -> Errors:
    path = "spec.controllerRef"
    errors = immutable(path, at(new, "spec", "controllerRef"), at(old, "spec", "controllerRef"))
    before = {each.get("name", ""): each for each in at(old, "spec", _TEMPLATES) or ()}
    now: set[str] = set()
    for where, template in items(new.get("spec", {}), _TEMPLATES, "spec"):
        name = template.get("name", "")
        now.add(name)
        if name in before:
            errors += _group_update(where, template, before[name])
        else:
            errors.append(forbidden(where, "item may not be added"))
    return errors + [forbidden(f"spec.{_TEMPLATES}", "item may not be removed") for _ in before.keys() - now]


# ---- pod groups of v1alpha2


def to_workload_ref(document: Document) -> None:
    spec = document.get("spec", {})
    reference = spec.pop("podGroupTemplateRef", None) or {}
    if (workload := reference.get("workload")) is not None:
        spec["workloadRef"] = {
            "workloadName": workload.get("workloadName", ""),
            "templateName": workload.get("podGroupTemplateName", ""),
        }
    spec.pop("disruptionMode", None)  # a text there, of a feature that this server does not have
    _complete_group(spec)


def to_template_ref(document: Document) -> None:
    spec = document.get("spec", {})
    reference = spec.pop("workloadRef", None)
    if reference is not None:
        workload = {
            "workloadName": reference["workloadName"],
            "podGroupTemplateName": reference["templateName"],
        }
        spec["podGroupTemplateRef"] = {"workload": workload}
    spec.pop("disruptionMode", None)
