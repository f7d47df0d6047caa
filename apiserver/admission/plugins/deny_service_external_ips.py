"""Refuses Services that name external IPs which they have not had before: they could take others' traffic.

Source: kubernetes, plugin/pkg/admission/network/denyserviceexternalips.
"""

from __future__ import annotations

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.listers import refused
from apiserver.meta.vocabulary import Document, GroupResource


class DenyServiceExternalIPs(Plugin):
    name = "DenyServiceExternalIPs"
    handled = writes(GroupResource("", "services"))

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if not _external_ips(new) <= _external_ips(old):
            raise refused(attributes, new, "Use of external IPs is denied by admission control.")


def _external_ips(service: Document | None) -> set[str]:
    return set(((service or {}).get("spec") or {}).get("externalIPs") or ())
