"""Pod disruption budgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, status_subresource
from apiserver.catalogue.common import workloads
from apiserver.catalogue.common.columns import status_column
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.checks import one_of
from apiserver.schema.validation.conditions import validate_conditions
from apiserver.schema.validation.label_selectors import label_selector

_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def prepare_disruption_budget_create(document: Document) -> None:
    document["status"] = dict.fromkeys(_COUNTS, 0)


def validate_disruption_budget(document: Document) -> Errors:
    spec = document["spec"]
    errors: Errors = []
    bounds = ("minAvailable", "maxUnavailable")
    if all(bound in spec for bound in bounds):
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for bound in bounds:
        errors += workloads.validate_int_or_percent(f"spec.{bound}", spec.get(bound))
        errors += workloads.validate_percent_at_most_100(f"spec.{bound}", spec.get(bound))
    errors += label_selector("spec.selector", spec.get("selector"))
    if "unhealthyPodEvictionPolicy" in spec:
        path, supported = "spec.unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget")
        errors += one_of(path, spec["unhealthyPodEvictionPolicy"], supported)
    return errors


def validate_disruption_budget_status_update(new: Document, old: Document) -> Errors:
    return validate_disruption_conditions(new, old) + workloads.validate_counts(
        new.get("status") or {}, _COUNTS
    )


def validate_disruption_conditions(new: Document, old: Document) -> Errors:
    """Checks the parts of the status that v1beta1 checks, too."""
    return validate_conditions(new.get("status") or {}, "status")


# ---- columns


def _bound(field: str) -> Callable[[Document, float], str]:
    bound = field_cell("spec", field, default="N/A")
    return lambda document, now: str(bound(document, now))


BUILTIN_TYPE: Final = BuiltinType(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    short_names=("pdb",),
    strategy=Strategy(
        allows_unconditional_update=False,
        name_rule=names.path_segment,
        prepare_create=prepare_disruption_budget_create,
        validate=validate_disruption_budget,
        update=UpdateStrategy(prepare=keep_status),
        has_generation=True,
    ),
    subresources=(status_subresource(validate_disruption_budget_status_update),),
    columns=columns(
        Column("Min Available", _bound("minAvailable"), "The minimum number of available pods."),
        Column("Max Unavailable", _bound("maxUnavailable"), "The maximum number of unavailable pods."),
        status_column(
            "Allowed Disruptions",
            "disruptionsAllowed",
            "The number of disruptions that are currently allowed.",
        ),
        AGE,
    ),
)
