"""The quality-of-service class of pods. Source: pkg/apis/core/helper/qos, ComputePodQOS."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from apiserver.meta.quantity import EXACT
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import quantity_of

_RESOURCES: Final = ("cpu", "memory")


def qos_class(spec: Document) -> str:
    """Returns the class that determines how early a pod is evicted from a node under resource pressure."""
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    own = spec.get("resources")
    all_resources = [own] if own is not None else [each.get("resources") or {} for each in containers]
    totals: dict[str, dict[str, Decimal]] = {"requests": {}, "limits": {}}
    is_guaranteed = True
    for resources in all_resources:
        for field, total in totals.items():
            amounts = resources.get(field) or {}
            for name in _RESOURCES:
                asked = amounts.get(name)
                if asked is not None and (amount := quantity_of(asked).value) > 0:
                    before = total.get(name)
                    total[name] = amount if before is None else EXACT.add(before, amount)
                elif field == "limits":
                    is_guaranteed = False
        if not is_guaranteed and (totals["requests"] or totals["limits"]):
            return "Burstable"
    if not totals["requests"] and not totals["limits"]:
        return "BestEffort"
    return "Guaranteed" if totals["requests"] == totals["limits"] else "Burstable"
