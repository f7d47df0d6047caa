"""Sets the default storage class of claims that name none.

Source: kubernetes, plugin/pkg/admission/storage/storageclass/setdefault.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, creates
from apiserver.admission.listers import Lister, default_class
from apiserver.catalogue.core.persistent_volume_claims import storage_class_of
from apiserver.meta.vocabulary import Document, GroupResource

CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
_IS_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class DefaultStorageClass(Plugin):
    name = "DefaultStorageClass"
    handled = creates(CLAIMS)

    def __init__(self, classes: Lister) -> None:
        """classes: the storage classes."""
        self._classes = classes

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if storage_class_of(new) is None and (found := await default_class(self._classes, *_IS_DEFAULT)):
            new["spec"]["storageClassName"] = found
