"""Has images pulled anew for each pod: who may not pull an image may not use what others have pulled.

Source: kubernetes, plugin/pkg/admission/alwayspullimages.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, writes
from apiserver.admission.listers import refused
from apiserver.admission.plugins.pod_specs import CONTAINERS, PODS, work_with
from apiserver.golang.quoting import aggregate
from apiserver.meta.field_errors import not_supported
from apiserver.meta.vocabulary import Document

_ALWAYS: Final = "Always"
# Of the containers that an error may be about.
_LISTED_MAX: Final = 100


class AlwaysPullImages(Plugin):
    name = "AlwaysPullImages"
    handled = writes(PODS)

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        await attributes.offload.run_begun(work_with(new["spec"]), always_pull, new, old)

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if texts := await attributes.offload.run_begun(work_with(new["spec"]), problems, new, old):
            raise refused(attributes, new, aggregate(texts))


def always_pull(pod: Document, old: Document | None) -> None:
    """Have all images of a pod pulled, unless an update brings no new one."""
    if not _has_no_new_image(pod, old):
        for field, _, holder in _holders(pod["spec"]):
            holder[field] = _ALWAYS


def problems(pod: Document, old: Document | None) -> list[str]:
    """Returns where an image is not always pulled, in words for the client."""
    if _has_no_new_image(pod, old):
        return []
    errors = (
        str(not_supported(f"{path}.{field}", holder.get(field, ""), [_ALWAYS]))
        for field, path, holder in _holders(pod["spec"])
        if holder.get(field) != _ALWAYS
    )
    return list(islice(dict.fromkeys(errors), _LISTED_MAX))


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
