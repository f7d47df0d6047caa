"""Refuses every write. It serves tests of what clients do then.

Source: kubernetes, plugin/pkg/admission/deny.
"""

from __future__ import annotations

from apiserver.admission.chain import AdmissionAttributes, Plugin
from apiserver.meta.errors import Forbidden
from apiserver.meta.vocabulary import Document

_WHY = "admission control is denying all modifications"


class AlwaysDeny(Plugin):
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
    return Forbidden.to_resource(attributes.resource.group_resource, attributes.name or "Unknown", _WHY)
