"""Adds the finalizers that protect volumes and claims in use; a controller removes them.

Source: kubernetes, plugin/pkg/admission/storage/storageobjectinuseprotection.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.vocabulary import Document, GroupResource

_FINALIZERS: Final = {
    GroupResource("", "persistentvolumes"): "kubernetes.io/pv-protection",
    GroupResource("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
}


class StorageObjectInUseProtection(Plugin):
    name = "StorageObjectInUseProtection"

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource in _FINALIZERS and not subresource and operation is Operation.CREATE

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        meta = new["metadata"]
        finalizer = _FINALIZERS[attributes.resource.stored_group_resource]
        finalizers = meta.get("finalizers") or []
        if finalizer not in finalizers:
            meta["finalizers"] = [*finalizers, finalizer]
