"""Plugins that complete new objects.

Source: kubernetes, plugin/pkg/admission/{network/defaultingressclass,storage/storageclass/setdefault,
storage/storageobjectinuseprotection,nodetaint}.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, creates
from apiserver.admission.listers import Lister, default_class
from apiserver.catalogue.core.persistent_volume_claims import storage_class_of
from apiserver.meta.vocabulary import Document, GroupResource

CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
_DEFAULT_INGRESS_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"
_DEFAULT_STORAGE_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class DefaultIngressClass(Plugin):
    """Sets the class of ingresses without one."""

    name = "DefaultIngressClass"

    def __init__(self, classes: Lister) -> None:
        """classes: the ingress classes, which are in the same group."""
        self._classes = classes
        self.handled = creates(GroupResource(classes.group_resource.group, "ingresses"))

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        spec = new.setdefault("spec", {})
        if spec.get("ingressClassName") is not None:
            return
        if "kubernetes.io/ingress.class" in (new["metadata"].get("annotations") or {}):
            return
        if found := await default_class(self._classes, _DEFAULT_INGRESS_CLASS):
            spec["ingressClassName"] = found


class DefaultStorageClass(Plugin):
    """Sets the storage class of claims without one."""

    name = "DefaultStorageClass"
    handled = creates(CLAIMS)

    def __init__(self, classes: Lister) -> None:
        """classes: the storage classes."""
        self._classes = classes

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if storage_class_of(new) is not None:
            return
        if found := await default_class(self._classes, *_DEFAULT_STORAGE_CLASS):
            new["spec"]["storageClassName"] = found


class StorageObjectInUseProtection(Plugin):
    """Adds the finalizers that protect volumes, claims and their classes in use; controllers remove them."""

    name = "StorageObjectInUseProtection"

    def __init__(self, storage_group: str, *, protects_classes: bool) -> None:
        """storage_group: `storage.k8s.io`, as branded. protects_classes: whether VolumeAttributesClasses are
        protected, too.
        """
        self._finalizers = {
            GroupResource("", "persistentvolumes"): "kubernetes.io/pv-protection",
            CLAIMS: "kubernetes.io/pvc-protection",
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


class TaintNodesByCondition(Plugin):
    """Taints new nodes as not ready, so that they get no pods until the node controller removes the taint."""

    name = "TaintNodesByCondition"
    handled = creates(GroupResource("", "nodes"))

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        spec = new.setdefault("spec", {})
        taints = spec.get("taints") or []
        taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        if not any(taint.items() <= each.items() for each in taints):
            spec["taints"] = [*taints, taint]
