"""Lets pods that ask for an extended resource run on nodes that are kept for such pods.

Source: kubernetes, plugin/pkg/admission/extendedresourcetoleration.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.plugins.pod_specs import PODS, containers, work_with
from apiserver.catalogue.pod_specs.resource_requirements import is_extended_resource
from apiserver.load.offload import Offload
from apiserver.meta.vocabulary import Document

# By which tolerations are told apart.
_FIELDS: Final = ("key", "operator", "value", "effect")


class ExtendedResourceToleration(Plugin):
    name = "ExtendedResourceToleration"
    handled = writes(PODS)

    def __init__(self, offload: Offload) -> None:
        self._offload = offload

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        spec = new["spec"]
        await self._offload.for_user(attributes.user.name).run_begun(
            work_with(spec), tolerate_resources, spec
        )


def tolerate_resources(spec: Document) -> None:
    """Add a toleration for each extended resource that the containers of a pod ask for."""
    asked = {
        name
        for container in containers(spec, "containers", "initContainers")
        for name in (container.get("resources") or {}).get("requests") or ()
    }
    there = spec.get("tolerations") or []
    known = {tuple(each.get(field, "") for field in _FIELDS) for each in there}
    added = [
        {"key": name, "operator": "Exists", "effect": "NoSchedule"}
        for name in sorted(filter(is_extended_resource, asked))
        if (name, "Exists", "", "NoSchedule") not in known
    ]
    if added:
        spec["tolerations"] = [*there, *added]
