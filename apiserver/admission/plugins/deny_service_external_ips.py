"""Refuses Services that name external IPs which they have not had before: they could take others' traffic.

Source: kubernetes, plugin/pkg/admission/network/denyserviceexternalips.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.listers import refused
from apiserver.meta.vocabulary import Document, GroupResource

_SERVICES: Final = GroupResource("", "services")


class DenyServiceExternalIPs(Plugin):
    name = "DenyServiceExternalIPs"

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource == _SERVICES and not subresource and operation in (Operation.CREATE, Operation.UPDATE)

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> None:
        if new is not None and not _external_ips(new) <= _external_ips(old):
            raise refused(attributes, new, "Use of external IPs is denied by admission control.")


def _external_ips(service: Document | None) -> set[str]:
    return set(((service or {}).get("spec") or {}).get("externalIPs") or ())
