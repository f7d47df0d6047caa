"""Confines the pods of a namespace to nodes, by an annotation of the namespace or by configuration.

Source: kubernetes, plugin/pkg/admission/podnodeselector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, creates
from apiserver.admission.configuration.pod_node_selector import (
    CLUSTER_DEFAULT,
    InvalidSelector,
    NodeSelectors,
    labels_of,
)
from apiserver.admission.listers import Lister, refused
from apiserver.admission.plugins.pod_specs import PODS
from apiserver.meta.vocabulary import Document

ANNOTATION: Final = "scheduler.alpha.kubernetes.io/node-selector"


class PodNodeSelector(Plugin):
    name = "PodNodeSelector"
    handled = creates(PODS)

    def __init__(self, namespaces: Lister, configured: NodeSelectors) -> None:
        """configured: the selectors that pods of a namespace may use, by namespace, and the default."""
        self._namespaces = namespaces
        self._default = configured.get(CLUSTER_DEFAULT, {})
        self._allowed = configured

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        wanted = await self._selector_of_namespace(attributes, new)
        spec = new["spec"]
        if selector := {**wanted, **_compatible(attributes, new, wanted)}:
            spec["nodeSelector"] = selector
        self._require_allowed(attributes, new)

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        _compatible(attributes, new, await self._selector_of_namespace(attributes, new))
        self._require_allowed(attributes, new)

    def _require_allowed(self, attributes: AdmissionAttributes, pod: Document) -> None:
        """Require that a pod's selector is allowed."""
        selector = pod["spec"].get("nodeSelector") or {}
        allowed = self._allowed.get(attributes.namespace)
        if allowed and not selector.items() <= allowed.items():
            why = "pod node label selector labels conflict with its namespace whitelist"
            raise refused(attributes, pod, why)

    async def _selector_of_namespace(
        self, attributes: AdmissionAttributes, pod: Document
    ) -> Mapping[str, str]:
        """Returns the node selector of a namespace."""
        namespace = await self._namespaces.require_document(attributes.namespace)
        text = (namespace["metadata"].get("annotations") or {}).get(ANNOTATION)
        if text is None:
            return self._default
        try:
            return labels_of(text)
        except InvalidSelector as error:
            why = f"namespace {attributes.namespace}, annotation {ANNOTATION}: {error}"
            raise refused(attributes, pod, why) from None


def _compatible(
    attributes: AdmissionAttributes, pod: Document, wanted: Mapping[str, str]
) -> Mapping[str, str]:
    """Returns the pod's own selector, which must be compatible with the namespace's.

    Raises Forbidden if they conflict.
    """
    selector: Mapping[str, str] = pod["spec"].get("nodeSelector") or {}
    if any(selector.get(key, value) != value for key, value in wanted.items()):
        why = "pod node label selector conflicts with its namespace node label selector"
        raise refused(attributes, pod, why)
    return selector
