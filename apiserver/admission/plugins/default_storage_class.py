"""Claims that ask for no class of storage get the default one.

Source: kubernetes, plugin/pkg/admission/storage/storageclass/setdefault.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import Operation, Plugin, Write
from apiserver.admission.plugins.listers import Lister, default_class
from apiserver.catalogue.storage.storage_classes import storage_class_of
from apiserver.vocabulary import Document, GroupResource

CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
_IS_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class DefaultStorageClass(Plugin):
    name = "DefaultStorageClass"

    def __init__(self, classes: Lister) -> None:
        """classes: of storage."""
        self._classes = classes

    def concerns(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource == CLAIMS and not subresource and operation is Operation.CREATE

    async def mutate(self, write: Write, new: Document, old: Document | None) -> None:
        if storage_class_of(new) is None and (found := await default_class(self._classes, *_IS_DEFAULT)):
            new["spec"]["storageClassName"] = found
