"""Adds tolerations to pods: they stay for five minutes on nodes that do not answer, unless they say how long.

Source: kubernetes, plugin/pkg/admission/defaulttolerationseconds.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.vocabulary import Document, GroupResource

STAY_S: Final = 300
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PODS: Final = GroupResource("", "pods")


class DefaultTolerationSeconds(Plugin):
    name = "DefaultTolerationSeconds"

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource == _PODS and not subresource and operation in (Operation.CREATE, Operation.UPDATE)

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        add_tolerations(new["spec"])


def add_tolerations(spec: Document) -> None:
    """Add tolerations of the two taints of lost nodes that the pod does not tolerate."""
    there = spec.get("tolerations") or []
    tolerated = {each.get("key", "") for each in there if each.get("effect", "") in ("NoExecute", "")}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": STAY_S}
        for key in _TAINTS
        if key not in tolerated and "" not in tolerated
    ]
    if added:
        spec["tolerations"] = [*there, *added]
