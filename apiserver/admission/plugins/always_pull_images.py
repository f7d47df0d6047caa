"""Has images pulled anew for each pod: who may not pull an image may not use what others have pulled.

Source: kubernetes, plugin/pkg/admission/alwayspullimages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.listers import refused
from apiserver.admission.plugins.pod_specs import CONTAINERS, PODS
from apiserver.field_errors import not_supported
from apiserver.vocabulary import Document, GroupResource

_ALWAYS: Final = "Always"


class AlwaysPullImages(Plugin):
    name = "AlwaysPullImages"

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource == PODS and not subresource and operation in (Operation.CREATE, Operation.UPDATE)

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if not _has_no_new_image(new, old):
            for field, _, holder in _holders(new["spec"]):
                holder[field] = _ALWAYS

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> None:
        if new is None or _has_no_new_image(new, old):
            return
        errors = [
            not_supported(f"{path}.{field}", holder.get(field, ""), [_ALWAYS])
            for field, path, holder in _holders(new["spec"])
            if holder.get(field) != _ALWAYS
        ]
        if errors:
            texts = list(dict.fromkeys(map(str, errors)))
            raise refused(attributes, new, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _holders(spec: Document) -> Iterator[tuple[str, str, Document]]:
    """Yields what says when an image is pulled: its field for that, its path, and itself."""
    for field in CONTAINERS:
        for index, container in enumerate(spec.get(field) or ()):
            yield "imagePullPolicy", f"spec.{field}[{index}]", container
    for index, volume in enumerate(spec.get("volumes") or ()):
        if (image := volume.get("image")) is not None:
            yield "pullPolicy", f"spec.volumes[{index}].image", image


def _images(pod: Document) -> set[str]:
    return {
        holder.get("image" if field == "imagePullPolicy" else "reference") or ""
        for field, _, holder in _holders(pod["spec"])
    }


def _has_no_new_image(new: Document, old: Document | None) -> bool:
    """Pods that were there before the plugin was enabled can be updated."""
    return old is not None and _images(new) <= _images(old)
