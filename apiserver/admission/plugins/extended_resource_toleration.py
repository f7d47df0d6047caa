"""Lets pods that ask for an extended resource run on nodes that are kept for such pods.

Source: kubernetes, plugin/pkg/admission/extendedresourcetoleration.
"""

from __future__ import annotations

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.plugins.pod_specs import PODS, containers
from apiserver.catalogue.pod_specs.resource_requirements import is_extended_resource
from apiserver.vocabulary import Document, GroupResource


class ExtendedResourceToleration(Plugin):
    name = "ExtendedResourceToleration"

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource == PODS and not subresource and operation in (Operation.CREATE, Operation.UPDATE)

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        spec = new["spec"]
        asked = {
            name
            for container in containers(spec, "containers", "initContainers")
            for name in (container.get("resources") or {}).get("requests") or ()
        }
        tolerations = list(spec.get("tolerations") or ())
        for name in sorted(filter(is_extended_resource, asked)):
            added = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
            if not any(_is_same(each, added) for each in tolerations):
                tolerations.append(added)
        if tolerations:
            spec["tolerations"] = tolerations


def _is_same(one: Document, other: Document) -> bool:
    return all(one.get(field, "") == other.get(field, "") for field in ("key", "operator", "value", "effect"))
