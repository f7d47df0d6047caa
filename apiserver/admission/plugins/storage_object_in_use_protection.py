"""Volumes and claims are not removed while they are used: a controller takes the finalizer off.

Source: kubernetes, plugin/pkg/admission/storage/storageobjectinuseprotection.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import Operation, Plugin, Write
from apiserver.vocabulary import Document, GroupResource

_FINALIZERS: Final = {
    GroupResource("", "persistentvolumes"): "kubernetes.io/pv-protection",
    GroupResource("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
}


class StorageObjectInUseProtection(Plugin):
    name = "StorageObjectInUseProtection"

    def concerns(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource in _FINALIZERS and not subresource and operation is Operation.CREATE

    async def mutate(self, write: Write, new: Document, old: Document | None) -> None:
        meta = new["metadata"]
        finalizer = _FINALIZERS[write.resource.stored_group_resource]
        finalizers = meta.get("finalizers") or []
        if finalizer not in finalizers:
            meta["finalizers"] = [*finalizers, finalizer]
