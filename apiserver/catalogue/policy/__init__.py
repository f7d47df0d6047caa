"""The group `policy`."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.policy import pod_disruption_budgets

TYPES: Final = (pod_disruption_budgets.BUILTIN_TYPE,)
