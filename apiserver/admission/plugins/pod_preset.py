"""Puts PodPresets into the pods that they select.

It is for releases up to 1.19 alone, and off by default, as there. All presets of the namespace that select a
new pod are merged into it, and named by annotations, each with its resourceVersion. Who creates the pod needs
no right to them. If presets contradict each other or the pod, that is logged, and the pod stays as it is.

Left out, as in Kubernetes: pods that say so by an annotation, mirror pods, and what is no create. As there, a
pod is invalid if the name of a preset is too long for the annotation. Unlike there, what presets may add is
bounded by `ADDED_BYTES_MAX`; and without settings/v1alpha1, no pod waits for presets that never come.
Source: kubernetes, plugin/pkg/admission/podpreset, release 1.18.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.listers import Lister, refused
from apiserver.admission.plugins.pod_presets import PresetConflict, merge, work_of_merge
from apiserver.admission.plugins.pod_specs import MIRROR, PODS, containers
from apiserver.load.offload import Offload
from apiserver.validation.label_selectors import selects
from apiserver.vocabulary import Document, GroupResource
from storage.interface import VALUE_BYTES_MAX
from storage.turns import in_turns

log = logging.getLogger(__name__)

EXCLUDE: Final = "podpreset.admission.kubernetes.io/exclude"
# By the specs of all presets together, to all containers: with much more no pod can be stored, and a pod of a
# thousand containers would get a thousand times what a preset may have.
ADDED_BYTES_MAX: Final = 2 * VALUE_BYTES_MAX


class _Selecting(NamedTuple):
    """The presets that select a pod. added_bytes: of their specs, once for each of its containers."""

    presets: Sequence[Document]
    added_bytes: int


class PodPreset(Plugin):
    name = "PodPreset"

    def __init__(self, presets: Lister, offload: Offload) -> None:
        self._presets = presets
        self._offload = offload

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource == PODS and not subresource and operation is Operation.CREATE

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        annotations = new["metadata"].get("annotations") or {}
        if MIRROR in annotations or annotations.get(EXCLUDE) == "true":
            return
        offload = self._offload.for_user(attributes.user.name)
        presets, added_bytes = await self._selecting(attributes, new, offload)
        if not presets:
            return
        size = work_of_merge(new["spec"], added_bytes)
        try:
            merged = await offload.run_begun(size, merge, new, presets)
        except PresetConflict as conflict:
            meta = new["metadata"]
            pod = f"{attributes.namespace}/{meta.get('name') or meta.get('generateName', '')}"
            log.warning("no PodPresets are put into pod %s: %s", pod, conflict)
            return
        new["metadata"], new["spec"] = merged["metadata"], merged["spec"]

    async def _selecting(
        self, attributes: AdmissionAttributes, pod: Document, offload: Offload
    ) -> _Selecting:
        """Raises Forbidden if they would add too much, the storage's errors, and CorruptObject."""
        labels = pod["metadata"].get("labels") or {}
        presets: list[Document] = []
        added_bytes, places = 0, max(1, sum(1 for _ in containers(pod["spec"])))
        async for each in in_turns(await self._presets.list(attributes.namespace)):
            preset = await offload.document(each)
            spec = preset.get("spec") or {}
            if selects(spec.get("selector") or {}, labels):
                presets.append(preset)
                added_bytes += len(orjson.dumps(spec)) * places
                if added_bytes > ADDED_BYTES_MAX:
                    text = f"PodPresets may add {ADDED_BYTES_MAX} bytes to its containers, and would add more"
                    raise refused(attributes, pod, text)
        return _Selecting(presets, added_bytes)
