"""Plugins that refuse a write because of its object alone.

Source: kubernetes, plugin/pkg/admission/{antiaffinity,network/denyserviceexternalips,deny}.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.listers import refused
from apiserver.admission.plugins.pod_specs import PODS
from apiserver.meta.errors import Forbidden
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.schema.validation.documents import at

_ALLOWED: Final = "kubernetes.io/hostname"
_TERMS: Final = ("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


class LimitPodHardAntiAffinityTopology(Plugin):
    """Refuses pods whose anti-affinity covers more than a node, as a whole zone."""

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


class DenyServiceExternalIPs(Plugin):
    """Refuses Services with new external IPs, which could take over the traffic of others."""

    name = "DenyServiceExternalIPs"
    handled = writes(GroupResource("", "services"))

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if not _external_ips(new) <= _external_ips(old):
            raise refused(attributes, new, "Use of external IPs is denied by admission control.")


def _external_ips(service: Document | None) -> set[str]:
    return set(((service or {}).get("spec") or {}).get("externalIPs") or ())


class AlwaysDeny(Plugin):
    """Refuses every write, so that tests can see how clients react."""

    name = "AlwaysDeny"

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        raise _refusal(attributes)

    async def mutate_deletion(self, attributes: AdmissionAttributes, old: Document | None) -> None:
        raise _refusal(attributes)

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        raise _refusal(attributes)

    async def validate_deletion(self, attributes: AdmissionAttributes, old: Document | None) -> None:
        raise _refusal(attributes)


def _refusal(attributes: AdmissionAttributes) -> Forbidden:
    why = "admission control is denying all modifications"
    return Forbidden.to_resource(attributes.resource.group_resource, attributes.name or "Unknown", why)
