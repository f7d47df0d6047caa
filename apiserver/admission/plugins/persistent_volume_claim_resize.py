"""Refuses to expand claims that are not bound, or whose storage class does not allow expansion.

Source: kubernetes, plugin/pkg/admission/storage/persistentvolume/resize.
"""

from __future__ import annotations

from apiserver.admission.chain import AdmissionAttributes, Plugin, updates
from apiserver.admission.listers import Lister, refused
from apiserver.admission.plugins.new_object_defaults import CLAIMS
from apiserver.catalogue.core.persistent_volume_claims import storage_class_of
from apiserver.meta.quantity import Quantity, parse_quantity
from apiserver.meta.vocabulary import Document


class PersistentVolumeClaimResize(Plugin):
    name = "PersistentVolumeClaimResize"
    handled = updates(CLAIMS)

    def __init__(self, classes: Lister) -> None:
        """classes: the storage classes."""
        self._classes = classes

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if old is None or self._classes.served is None or _size(new) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise refused(attributes, new, "Only bound persistent volume claims can be expanded")
        name = storage_class_of(new)
        found = await self._classes.get_document(name) if name and name == storage_class_of(old) else None
        if found is None or not found.get("allowVolumeExpansion"):
            raise refused(
                attributes,
                new,
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the "
                "pvc must support resize",
            )


def _size(claim: Document) -> Quantity:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return parse_quantity(str(requests.get("storage", "0")))
