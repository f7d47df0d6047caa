"""Refuses pods that keep others off more than their own node, as off a whole zone.

Source: kubernetes, plugin/pkg/admission/antiaffinity.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.listers import refused
from apiserver.admission.plugins.pod_specs import PODS
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at

_ALLOWED: Final = "kubernetes.io/hostname"
_TERMS: Final = ("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


class LimitPodHardAntiAffinityTopology(Plugin):
    name = "LimitPodHardAntiAffinityTopology"
    handled = writes(PODS)

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        for term in at(new["spec"], *_TERMS) or ():
            if (key := term.get("topologyKey", "")) != _ALLOWED:
                raise refused(
                    attributes,
                    new,
                    f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key "
                    f"{_ALLOWED} is allowed",
                )
