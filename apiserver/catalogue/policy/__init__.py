"""The group `policy`."""

from __future__ import annotations

from collections.abc import Callable

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.pod_specs.templates import status_count
from apiserver.catalogue.policy import pod_disruption_budgets
from apiserver.meta import names
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status, only_status
from apiserver.vocabulary import Document


def types() -> tuple[BuiltinType, ...]:
    return (
        BuiltinType(
            "policy",
            "v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            "io.k8s.api.policy.v1.PodDisruptionBudget",
            short_names=("pdb",),
            strategy=Strategy(
                name_rule=names.path_segment,
                prepare_create=pod_disruption_budgets.prepare_disruption_budget_create,
                validate=pod_disruption_budgets.validate_disruption_budget,
                update=UpdateStrategy(prepare=keep_status),
                has_generation=True,
            ),
            subresources=(
                Subresource(
                    "status",
                    update=UpdateStrategy(
                        prepare=only_status,
                        validate=pod_disruption_budgets.validate_disruption_budget_status_update,
                    ),
                ),
            ),
            columns=columns(
                Column(
                    "Min Available", _bound("minAvailable"), description="How many pods must be available."
                ),
                Column(
                    "Max Unavailable", _bound("maxUnavailable"), description="How many pods may be missing."
                ),
                Column(
                    "Allowed Disruptions",
                    status_count("disruptionsAllowed"),
                    type="integer",
                    description="How many pods may be disturbed now.",
                ),
                AGE,
            ),
        ),
    )


def _bound(field: str) -> Callable[[Document, float], str]:
    bound = field_cell("spec", field, default="N/A")
    return lambda document, now: str(bound(document, now))
