"""PodGroups: pods that are scheduled together, or not at all.

Source: k8s.io/api/scheduling/v1alpha2, the declarative rules; pkg/registry/scheduling/podgroup; KEP-4671
(release 1.36).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.scheduling.scheduling_policies import validate_policy
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status, only_status_without_metadata
from apiserver.schema.validation.checks import immutable_fields, named
from apiserver.schema.validation.conditions import validate_conditions

GATE: Final = "GenericWorkload"
# Fields of features that are off by default, which this server does not have.
DISABLED: Final = (
    *("schedulingConstraints", "resourceClaims", "disruptionMode", "priorityClassName", "priority"),
)
_IMMUTABLE: Final = ("podGroupTemplateRef", "schedulingPolicy")


def status_subresource() -> Subresource:
    update = UpdateStrategy(take_status, validate_status, resets=("metadata", "spec"))
    return Subresource("status", update=update)


def prepare_new_group(document: Document) -> None:
    document["status"] = {}
    drop_disabled(document.get("spec", {}))


def prepare_group(new: Document, old: Document) -> None:
    keep_status(new, old)
    drop_disabled(new.get("spec", {}))


def drop_disabled(group: Document) -> None:
    for field in DISABLED:
        group.pop(field, None)


def validate_group(document: Document) -> Errors:
    spec = document.get("spec", {})
    errors: Errors = []
    if (template := spec.get("podGroupTemplateRef")) is not None:
        path = "spec.podGroupTemplateRef"
        workload = template.get("workload")
        if workload is None:
            errors.append(invalid(path, "", "must specify one of: `workload`"))
        else:
            errors += named(
                f"{path}.workload.workloadName", workload.get("workloadName"), names.dns_subdomain
            )
            errors += named(
                f"{path}.workload.podGroupTemplateName", workload.get("podGroupTemplateName"), names.dns_label
            )
    return errors + validate_policy("spec.schedulingPolicy", spec.get("schedulingPolicy") or {})


def validate_group_update(new: Document, old: Document) -> Errors:
    return immutable_fields("spec", new.get("spec") or {}, old.get("spec") or {}, _IMMUTABLE)


def take_status(new: Document, old: Document) -> None:
    only_status_without_metadata(new, old)
    new.get("status", {}).pop("resourceClaimStatuses", None)


def validate_status(new: Document, old: Document) -> Errors:
    return validate_conditions(new.get("status") or {}, "status")


BUILTIN_TYPE: Final = BuiltinType(
    "scheduling.",
    "v1alpha2",
    "podgroups",
    "PodGroup",
    subresources=(status_subresource(),),
    strategy=Strategy(
        prepare_create=prepare_new_group,
        validate=validate_group,
        update=UpdateStrategy(prepare_group, validate_group_update),
    ),
    feature_gates=(GATE,),
)
