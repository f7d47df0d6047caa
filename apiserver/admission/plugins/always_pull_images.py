"""Makes kubelets pull images for each pod, since nodes may hold images that the pod's author may not pull.

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
    """Set all images of a pod to be pulled always, unless an update brings no new image."""
    if not _has_no_new_image(pod, old):
        for field, _, holder in _holders(pod["spec"]):
            holder[field] = _ALWAYS


def problems(pod: Document, old: Document | None) -> list[str]:
    """Returns the error for each image that is not always pulled."""
    if _has_no_new_image(pod, old):
        return []
    errors = (
        str(not_supported(f"{path}.{field}", holder.get(field, ""), [_ALWAYS]))
        for field, path, holder in _holders(pod["spec"])
        if holder.get(field) != _ALWAYS
    )
    return list(islice(dict.fromkeys(errors), _LISTED_MAX))


def _holders(spec: Document) -> Iterator[tuple[str, str, Document]]:
    """Yields the holders of images in a pod, each with its path and pull policy field."""
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
    """Returns whether an update brings no new image, so that pods older than the plugin can be updated."""
    return old is not None and _images(new) <= _images(old)
