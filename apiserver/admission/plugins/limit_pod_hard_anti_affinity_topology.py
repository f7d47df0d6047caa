"""Refuses pods that keep others off more than their own node, as off a whole zone.

Source: kubernetes, plugin/pkg/admission/antiaffinity.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.listers import refused
from apiserver.admission.plugins.pod_specs import PODS
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.schema.validation.documents import at

_ALLOWED: Final = "kubernetes.io/hostname"
_TERMS: Final = ("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


class LimitPodHardAntiAffinityTopology(Plugin):
    name = "LimitPodHardAntiAffinityTopology"

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource == PODS and not subresource and operation in (Operation.CREATE, Operation.UPDATE)

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> None:
        if new is None:
            return
        for term in at(new["spec"], *_TERMS) or ():
            if (key := term.get("topologyKey", "")) != _ALLOWED:
                raise refused(
                    attributes,
                    new,
                    f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key "
                    f"{_ALLOWED} is allowed",
                )
