"""Refuses resizes of pods that need a feature which their node does not declare in `status.declaredFeatures`.

Nothing else that needs such a feature can change in a pod that is bound to a node. Sources: kubernetes,
plugin/pkg/admission/nodedeclaredfeatures; component-helpers, nodedeclaredfeatures.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, updates
from apiserver.admission.listers import Lister
from apiserver.admission.plugins.pod_specs import PODS
from apiserver.golang.quoting import go_quote
from apiserver.meta.errors import Forbidden
from apiserver.meta.vocabulary import Document

GATE: Final = "NodeDeclaredFeatures"


class NodeDeclaredFeatureValidator(Plugin):
    name = "NodeDeclaredFeatureValidator"
    handled = updates(PODS) | updates(PODS, subresource="resize")

    def __init__(self, nodes: Lister) -> None:
        self._nodes = nodes

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        """Refuse a resize that the node does not support. Raises Forbidden, and the storage's errors."""
        if old is None:
            return
        spec, old_spec = new["spec"], old["spec"]
        name = spec.get("nodeName")
        # The generation rises with every change of the spec.
        if not name or new["metadata"].get("generation") == old["metadata"].get("generation"):
            return
        needed = [feature for feature, is_needed in _FEATURES.items() if is_needed(spec, old_spec)]
        if not needed:
            return
        node = await self._nodes.get_document(name)
        if node is None:
            raise _refused(new, f"node {go_quote(name)} not found")
        declared = (node.get("status") or {}).get("declaredFeatures") or ()
        if missing := [feature for feature in needed if feature not in declared]:
            why = f"pod update requires features {', '.join(missing)} which are not available on node"
            raise _refused(new, f"{why} {go_quote(name)}")


def _refused(pod: Document, why: str) -> Forbidden:
    return Forbidden.to_resource(PODS, pod["metadata"]["name"], why)


def _resizes_pod(spec: Document, old_spec: Document) -> bool:
    return bool(spec.get("resources") != old_spec.get("resources"))


def _resizes_init_containers(spec: Document, old_spec: Document) -> bool:
    """Returns whether a resize changes an init container that is not a sidecar.

    Resizes do not add or remove containers.
    """
    return any(
        old.get("restartPolicy") != "Always" and new.get("resources") != old.get("resources")
        for new, old in zip(
            spec.get("initContainers") or (), old_spec.get("initContainers") or (), strict=True
        )
    )


# Whether an update needs it, by the name of the feature, in their order.
_FEATURES: Final = MappingProxyType[str, Callable[[Document, Document], bool]](
    {
        "InPlacePodLevelResourcesVerticalScaling": _resizes_pod,
        "InPlacePodVerticalScalingInitContainers": _resizes_init_containers,
    }
)
