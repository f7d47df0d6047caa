"""Workloads: the templates of a workload's pod groups.

Source: k8s.io/api/scheduling/v1alpha2, the declarative rules; pkg/apis/scheduling/validation; KEP-4671
(release 1.36). v1alpha1, which 1.35 had, has the groups under other names.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import hub_of, other_version
from apiserver.catalogue.scheduling.pod_groups import GATE, drop_disabled
from apiserver.catalogue.scheduling.scheduling_policies import validate_policy
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, required
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import immutable_fields, max_items, named, uniqueness
from apiserver.schema.validation.documents import at, items

_TEMPLATES: Final = "podGroupTemplates"
_GROUPS: Final = "podGroups"
_TEMPLATES_MAX: Final = 8


def prepare_workload(new: Document, old: Document | None = None) -> None:
    for template in at(new, "spec", _TEMPLATES) or ():
        drop_disabled(template)


def validate_workload(document: Document) -> Errors:
    return validate_controller(document) + _count(document) + _templates(document)


def validate_workload_update(new: Document, old: Document) -> Errors:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    return immutable_fields("spec", spec, before, ("controllerRef", _TEMPLATES)) + _count(new)


def validate_controller(document: Document) -> Errors:
    reference = at(document, "spec", "controllerRef")
    if reference is None:
        return []
    path = "spec.controllerRef"
    return [
        *named(f"{path}.apiGroup", reference.get("apiGroup"), names.dns_subdomain, is_required=False),
        *named(f"{path}.kind", reference.get("kind"), names.path_segment),
        *named(f"{path}.name", reference.get("name"), names.path_segment),
    ]


def _count(document: Document) -> Errors:
    path, templates = f"spec.{_TEMPLATES}", at(document, "spec", _TEMPLATES)
    return max_items(path, templates, _TEMPLATES_MAX) if templates else [required(path)]


def _templates(document: Document) -> Errors:
    if len(at(document, "spec", _TEMPLATES) or ()) > _TEMPLATES_MAX:
        return []
    duplicates: Errors = []
    errors: Errors = []
    unique = uniqueness()
    for where, template in items(document.get("spec", {}), _TEMPLATES, "spec"):
        name, policy = template.get("name", ""), template.get("schedulingPolicy") or {}
        errors += named(f"{where}.name", name, names.dns_label)
        shown = {"name": name, "schedulingPolicy": policy, "schedulingConstraints": None}
        duplicates += unique(where, name, shown)
        errors += validate_policy(f"{where}.schedulingPolicy", policy)
    return duplicates + errors


# ---- v1alpha1


def to_v1alpha2(document: Document) -> None:
    spec = document.get("spec", {})
    if _GROUPS in spec:
        groups = spec.pop(_GROUPS)
        spec[_TEMPLATES] = groups and [
            {"name": each.get("name", ""), "schedulingPolicy": each.get("policy") or {}} for each in groups
        ]


def to_v1alpha1(document: Document) -> None:
    spec = document.get("spec", {})
    if _TEMPLATES in spec:
        templates: list[Any] | None = spec.pop(_TEMPLATES)
        spec[_GROUPS] = templates and [
            {"name": each.get("name", ""), "policy": each.get("schedulingPolicy") or {}} for each in templates
        ]


BUILTIN_TYPE: Final = BuiltinType(
    "scheduling.",
    "v1alpha2",
    "workloads",
    "Workload",
    strategy=Strategy(
        prepare_create=prepare_workload,
        validate_create=validate_workload,
        update=UpdateStrategy(prepare_workload, validate_workload_update),
    ),
    feature_gates=(GATE,),
)
_HUB: Final = hub_of(BUILTIN_TYPE, to_v1alpha2, to_v1alpha1)
TYPES: Final = (BUILTIN_TYPE, other_version(BUILTIN_TYPE, "v1alpha1", hub=_HUB))
