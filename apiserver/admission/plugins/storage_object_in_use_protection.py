"""Adds the finalizers that protect volumes, claims and their classes in use; controllers remove them.

Source: kubernetes, plugin/pkg/admission/storage/storageobjectinuseprotection.
"""

from __future__ import annotations

from apiserver.admission.chain import AdmissionAttributes, Plugin, creates
from apiserver.meta.vocabulary import Document, GroupResource


class StorageObjectInUseProtection(Plugin):
    name = "StorageObjectInUseProtection"

    def __init__(self, storage_group: str, *, protects_classes: bool) -> None:
        """storage_group: `storage.k8s.io`, as branded. protects_classes: VolumeAttributesClasses, too."""
        self._finalizers = {
            GroupResource("", "persistentvolumes"): "kubernetes.io/pv-protection",
            GroupResource("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
        }
        if protects_classes:
            classes = GroupResource(storage_group, "volumeattributesclasses")
            self._finalizers[classes] = "kubernetes.io/vac-protection"
        self.handled = creates(*self._finalizers)

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        meta = new["metadata"]
        finalizer = self._finalizers[attributes.resource.stored_group_resource]
        finalizers = meta.get("finalizers") or []
        if finalizer not in finalizers:
            meta["finalizers"] = [*finalizers, finalizer]
