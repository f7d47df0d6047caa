"""Pod disruption budgets."""

from __future__ import annotations

from apiserver.catalogue.common import workloads
from apiserver.field_errors import invalid
from apiserver.validation.checks import Errors, label_selector, one_of
from apiserver.vocabulary import Document

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
    return workloads.validate_counts(new.get("status") or {}, _COUNTS)
