"""Sets the overhead, node selector and tolerations of pods from their RuntimeClass.

Source: kubernetes, plugin/pkg/admission/runtimeclass.
"""

from __future__ import annotations

from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, creates
from apiserver.admission.listers import Lister, refused
from apiserver.admission.plugins.pod_specs import PODS
from apiserver.admission.plugins.tolerations import merged
from apiserver.meta.quantity import parse_quantity
from apiserver.meta.vocabulary import Document


class RuntimeClass(Plugin):
    name = "RuntimeClass"
    handled = creates(PODS)

    def __init__(self, classes: Lister) -> None:
        self._classes = classes

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        found = await self._class_of(attributes, new)
        if found is None:
            return
        spec = new["spec"]
        if overhead := _overhead(found):
            if spec.get("overhead") and not _same(spec["overhead"], overhead):
                raise refused(attributes, new, _OTHER_OVERHEAD)
            spec["overhead"] = dict(overhead)
        scheduling = found.get("scheduling")
        if scheduling is None:
            return
        selector = dict(spec.get("nodeSelector") or {})
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.get(key, value) != value:
                raise refused(
                    attributes,
                    new,
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}",
                )
            selector[key] = value
        if selector:
            spec["nodeSelector"] = selector
        if tolerations := merged(spec.get("tolerations") or (), scheduling.get("tolerations") or ()):
            spec["tolerations"] = tolerations

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if self._classes.served is None:
            return
        found, overhead = await self._class_of(attributes, new), new["spec"].get("overhead") or {}
        expected = _overhead(found) if found is not None else {}
        if expected and not _same(overhead, expected):
            raise refused(attributes, new, _OTHER_OVERHEAD)
        if overhead and not expected:
            raise refused(
                attributes,
                new,
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            )

    async def _class_of(self, attributes: AdmissionAttributes, pod: Document) -> Document | None:
        name = pod["spec"].get("runtimeClassName")
        if name is None or self._classes.served is None:
            return None
        found = await self._classes.get_document(name) if name else None
        if found is None:
            raise refused(attributes, pod, f'pod rejected: RuntimeClass "{name}" not found')
        return found


_OTHER_OVERHEAD: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


def _overhead(runtime_class: Document) -> dict[str, str]:
    return (runtime_class.get("overhead") or {}).get("podFixed") or {}


def _same(one: dict[str, str], other: dict[str, str]) -> bool:
    return {name: parse_quantity(str(value)) for name, value in one.items()} == {
        name: parse_quantity(str(value)) for name, value in other.items()
    }
