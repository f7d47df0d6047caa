"""Workloads and PodGroups of release 1.37, in v1beta1 and v1alpha3, which only differ in name.

That release no longer has v1alpha2. Objects stored in it, or in v1alpha1, are read as v1beta1.
Source: k8s.io/api/scheduling/v1beta1, the declarative rules; pkg/registry/scheduling (release 1.37).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import hub_of, other_version
from apiserver.catalogue.scheduling import composite_pod_groups, pod_groups, workloads
from apiserver.catalogue.scheduling.group_fields import (
    complete,
    disabled_fields,
    prepare_group,
    prepare_new_group,
    validate_group,
    validate_group_update,
    validate_parent,
    validate_workload_reference,
)
from apiserver.catalogue.scheduling.template_trees import (
    drop_disabled,
    validate_templates,
    validate_templates_update,
)
from apiserver.meta.field_errors import Errors
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import immutable_fields

_PACKAGE: Final = "io.k8s.api.scheduling.v1beta1"


def types(gates: FeatureGates | None) -> tuple[BuiltinType, ...]:
    """Returns the group's types of release 1.37. gates: the gates that add fields; None if all are on."""
    disabled = disabled_fields(gates)
    groups, works = _pod_groups(disabled), _workloads(disabled)
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
        composite_pod_groups.builtin_type(disabled),
    )


# ---- pod groups


def _pod_groups(disabled: frozenset[str]) -> BuiltinType:
    return BuiltinType(
        "scheduling.",
        "v1beta1",
        "podgroups",
        "PodGroup",
        subresources=(pod_groups.status_subresource(),),
        defaults={f"{_PACKAGE}.PodGroupSpec": complete},
        strategy=Strategy(
            prepare_create=partial(prepare_new_group, disabled),
            validate=_validate_pod_group,
            update=UpdateStrategy(partial(prepare_group, disabled), _validate_pod_group_update),
        ),
        feature_gates=(pod_groups.GATE,),
    )


def _validate_pod_group(document: Document) -> Errors:
    spec = document.get("spec") or {}
    errors, reference = validate_parent(spec), spec.get("workloadRef")
    if reference is not None:
        errors += validate_workload_reference("spec.workloadRef", reference)
    return errors + validate_group("spec", spec)


def _validate_pod_group_update(new: Document, old: Document) -> Errors:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    errors = immutable_fields("spec", spec, before, ("parentCompositePodGroupName", "workloadRef"))
    return errors + validate_group_update("spec", spec, before)


# ---- workloads


def _workloads(disabled: frozenset[str]) -> BuiltinType:
    return BuiltinType(
        "scheduling.",
        "v1beta1",
        "workloads",
        "Workload",
        strategy=Strategy(
            prepare_create=partial(_prepare_new_workload, disabled),
            validate=_validate_workload,
            update=UpdateStrategy(partial(_prepare_workload, disabled), _validate_workload_update),
        ),
        feature_gates=(pod_groups.GATE,),
    )


def _prepare_new_workload(disabled: frozenset[str], document: Document) -> None:
    drop_disabled(document.get("spec") or {}, disabled)


def _prepare_workload(disabled: frozenset[str], new: Document, old: Document) -> None:
    drop_disabled(new.get("spec") or {}, disabled, old.get("spec") or {})


def _validate_workload(document: Document) -> Errors:
    return workloads.validate_controller(document) + validate_templates(document.get("spec") or {})


def _validate_workload_update(new: Document, old: Document) -> Errors:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    errors = immutable_fields("spec", spec, before, ("controllerRef",))
    return errors + validate_templates_update(spec, before)


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
    complete(spec)


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
