"""The group `policy`."""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.policy import pod_disruption_budgets


def types() -> tuple[BuiltinType, ...]:
    return (pod_disruption_budgets.builtin_type(),)
