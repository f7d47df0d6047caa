"""Copies the zone and region labels of a node to pods that are bound to it.

Source: kubernetes, plugin/pkg/admission/podtopologylabels.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, creates
from apiserver.admission.listers import Lister
from apiserver.admission.plugins.pod_specs import PODS
from apiserver.meta.vocabulary import Document

GATE: Final = "PodTopologyLabelsAdmission"
LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_BINDING: Final = "binding"


class PodTopologyLabels(Plugin):
    name = "PodTopologyLabels"
    handled = creates(PODS) | creates(PODS, subresource=_BINDING)

    def __init__(self, nodes: Lister) -> None:
        self._nodes = nodes

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if attributes.subresource == _BINDING:
            target = new.get("target") or {}
            name = target.get("name") if target.get("kind") == "Node" else None
        else:
            name = (new.get("spec") or {}).get("nodeName")
        node = await self._nodes.get_document(name) if name else None
        labels = (node or {"metadata": {}})["metadata"].get("labels") or {}
        if added := {key: labels[key] for key in LABELS if key in labels}:
            new["metadata"]["labels"] = {**added, **(new["metadata"].get("labels") or {})}
