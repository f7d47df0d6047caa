"""Sets the default class of ingresses that name none.

Source: kubernetes, plugin/pkg/admission/network/defaultingressclass.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, creates
from apiserver.admission.listers import Lister, default_class
from apiserver.meta.vocabulary import Document, GroupResource

_CLASS: Final = "kubernetes.io/ingress.class"
_IS_DEFAULT: Final = "ingressclass.kubernetes.io/is-default-class"


class DefaultIngressClass(Plugin):
    name = "DefaultIngressClass"

    def __init__(self, classes: Lister) -> None:
        """classes: the ingress classes, which are in the same group."""
        self._classes = classes
        self.handled = creates(GroupResource(classes.group_resource.group, "ingresses"))

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        spec = new.setdefault("spec", {})
        if spec.get("ingressClassName") is not None:
            return
        if _CLASS in (new["metadata"].get("annotations") or {}):
            return
        if found := await default_class(self._classes, _IS_DEFAULT):
            spec["ingressClassName"] = found
