"""Pods stay for five minutes on nodes that have stopped to answer, unless they say how long.

Source: kubernetes, plugin/pkg/admission/defaulttolerationseconds.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import Operation, Plugin, Write
from apiserver.vocabulary import Document, GroupResource

STAY_S: Final = 300
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PODS: Final = GroupResource("", "pods")


class DefaultTolerationSeconds(Plugin):
    name = "DefaultTolerationSeconds"

    def concerns(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource == _PODS and not subresource and operation in (Operation.CREATE, Operation.UPDATE)

    async def mutate(self, write: Write, new: Document, old: Document | None) -> None:
        add_tolerations(new["spec"])


def add_tolerations(spec: Document) -> None:
    """Tolerations of the two taints of a lost node, for pods that have none."""
    there = spec.get("tolerations") or []
    tolerated = {each.get("key", "") for each in there if each.get("effect", "") in ("NoExecute", "")}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": STAY_S}
        for key in _TAINTS
        if key not in tolerated and "" not in tolerated
    ]
    if added:
        spec["tolerations"] = [*there, *added]
