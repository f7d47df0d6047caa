"""Adds tolerations to pods: they stay for a while on nodes that do not answer, unless they say how long.

Source: kubernetes, plugin/pkg/admission/defaulttolerationseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.plugins.pod_specs import PODS
from apiserver.meta.vocabulary import Document

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"


class DefaultTolerationSeconds(Plugin):
    name = "DefaultTolerationSeconds"
    handled = writes(PODS)

    def __init__(self, not_ready_s: int, unreachable_s: int) -> None:
        """How long pods stay on nodes with each of the two taints."""
        self._stay_s = {_NOT_READY: not_ready_s, _UNREACHABLE: unreachable_s}

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        add_tolerations(new["spec"], self._stay_s)


def add_tolerations(spec: Document, stay_s: Mapping[str, int]) -> None:
    """Add tolerations of taints that the pod does not tolerate. stay_s: for how long, by taint."""
    there = spec.get("tolerations") or []
    tolerated = {each.get("key", "") for each in there if each.get("effect", "") in ("NoExecute", "")}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key, seconds in stay_s.items()
        if key not in tolerated and "" not in tolerated
    ]
    if added:
        spec["tolerations"] = [*there, *added]
