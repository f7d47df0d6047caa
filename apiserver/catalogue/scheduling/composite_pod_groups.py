"""CompositePodGroups: groups of pod groups, in a tree whose leaves are PodGroups.

Source: k8s.io/api/scheduling/v1alpha3, the declarative rules; pkg/registry/scheduling/compositepodgroup;
KEP-6012 (release 1.37).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.scheduling import pod_groups
from apiserver.catalogue.scheduling.group_fields import (
    COMPOSITE_GATE,
    IMMUTABLE_FIELDS,
    complete,
    prepare_group,
    prepare_new_group,
    validate_group,
    validate_parent,
    validate_workload_reference,
)
from apiserver.catalogue.scheduling.scheduling_policies import MIN_GROUP_COUNT
from apiserver.meta.field_errors import Errors, required
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.checks import immutable_fields

_DEFINITION: Final = "io.k8s.api.scheduling.v1alpha3.CompositePodGroup"


def builtin_type(disabled: frozenset[str]) -> BuiltinType:
    """Returns the type. disabled: see `group_fields.disabled_fields`."""
    return BuiltinType(
        "scheduling.",
        "v1alpha3",
        "compositepodgroups",
        "CompositePodGroup",
        subresources=(pod_groups.status_subresource(),),
        defaults={f"{_DEFINITION}Spec": complete},
        strategy=Strategy(
            prepare_create=partial(prepare_new_group, disabled),
            validate=_validate,
            update=UpdateStrategy(partial(prepare_group, disabled), _validate_update),
            allows_unconditional_update=False,
        ),
        feature_gates=(COMPOSITE_GATE,),
    )


def _validate(document: Document) -> Errors:
    spec = document.get("spec") or {}
    errors, reference = validate_parent(spec), spec.get("workloadRef")
    if reference is None:
        errors.append(required("spec.workloadRef"))
    else:
        errors += validate_workload_reference("spec.workloadRef", reference)
    return errors + validate_group("spec", spec, MIN_GROUP_COUNT)


def _validate_update(new: Document, old: Document) -> Errors:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    fields = ("parentCompositePodGroupName", "workloadRef", "schedulingPolicy", *IMMUTABLE_FIELDS)
    return immutable_fields("spec", spec, before, fields)
