"""Refuses to resize a pod beyond the capacity of its node, or on a node without support.

Otherwise the pod's status would report later that the resize is infeasible.
Source: kubernetes, plugin/pkg/admission/podresize (release 1.36).
"""

from __future__ import annotations

from decimal import Decimal
from types import MappingProxyType
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, updates
from apiserver.admission.listers import Lister
from apiserver.admission.plugins.pod_specs import PODS
from apiserver.catalogue.core.resource_quotas.usage import requests_of_pod
from apiserver.catalogue.pod_specs.resource_totals import quantities
from apiserver.golang.quoting import go_quote
from apiserver.meta.errors import Forbidden
from apiserver.meta.quantity import EXACT, Quantity
from apiserver.meta.vocabulary import Document

_SYSTEM_LABEL: Final = "kubernetes.io/os"
_NO_CAPACITY: Final = "NodeCapacity"
_UNSUPPORTED: Final = "UnsupportedPlatform"
# The resources that are compared, and the scale of the units in which errors show them.
_SCALES: Final = MappingProxyType({"cpu": 1_000, "memory": 1})
_NOTHING: Final = dict.fromkeys(_SCALES, Quantity(Decimal()))


class PodResizeValidator(Plugin):
    name = "PodResizeValidator"
    handled = updates(PODS, subresource="resize")

    def __init__(self, nodes: Lister) -> None:
        self._nodes = nodes

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        """Refuse a resize that the pod's node cannot do. Raises Forbidden, and the storage's errors."""
        if old is None:
            return
        name = new["spec"].get("nodeName")
        # The generation rises with every change of the spec.
        if not name or new["metadata"].get("generation") == old["metadata"].get("generation"):
            return
        node = await self._nodes.get_document(name)
        if node is None:
            raise _refused(new, f"node {go_quote(name)} not found")
        system = (node["metadata"].get("labels") or {}).get(_SYSTEM_LABEL, "linux")
        if system != "linux":
            why = f"pod resize is only supported on linux nodes, node {go_quote(name)} is {go_quote(system)}"
            raise _refused(new, why, _UNSUPPORTED)
        if lacking := _lacking(new["spec"], (node.get("status") or {}).get("allocatable") or {}):
            why = f"node didn't have enough allocatable resources: {'; '.join(lacking)}"
            raise _refused(new, why, _NO_CAPACITY)


def _refused(pod: Document, why: str, reason: str = "") -> Forbidden:
    causes = [{"reason": reason}] if reason else []
    return Forbidden.to_resource(PODS, pod["metadata"]["name"], why, causes=causes)


def _lacking(spec: Document, allocatable: Document) -> list[str]:
    """Returns the resources that exceed the node's capacity, in thousandths of a CPU and in bytes."""
    requested, there = {**_NOTHING, **requests_of_pod(spec)}, {**_NOTHING, **quantities(allocatable)}
    return [
        f"{name}, requested: {_units(requested[name], scale)}, allocatable: {_units(there[name], scale)}"
        for name, scale in _SCALES.items()
        if requested[name] > there[name]
    ]


def _units(quantity: Quantity, scale: int) -> int:
    return Quantity(EXACT.multiply(quantity.value, scale)).rounded_up()
