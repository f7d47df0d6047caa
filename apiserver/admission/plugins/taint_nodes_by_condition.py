"""Taints new nodes as not ready: they get no pods until the node controller removes the taint.

Source: kubernetes, plugin/pkg/admission/nodetaint.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, creates
from apiserver.meta.vocabulary import Document, GroupResource

_KEY: Final = "node.kubernetes.io/not-ready"
_EFFECT: Final = "NoSchedule"


class TaintNodesByCondition(Plugin):
    name = "TaintNodesByCondition"
    handled = creates(GroupResource("", "nodes"))

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        spec = new.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(each.get("key") == _KEY and each.get("effect") == _EFFECT for each in taints):
            spec["taints"] = [*taints, {"key": _KEY, "effect": _EFFECT}]
