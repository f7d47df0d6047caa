"""Merges PodPresets into a pod: variables and mounts into its containers, volumes into the pod itself.

What presets add stands behind what the pod has. What has the same name in both must be the same; otherwise
nothing of any preset is merged. Documents have their defaults, so what means the same is equal.
Source: kubernetes, plugin/pkg/admission/podpreset, release 1.18.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from apiserver.admission.plugins.pod_specs import containers, work_with
from apiserver.field_errors import quote
from apiserver.load.size_class import SizeClass, size_class
from apiserver.validation.documents import items
from apiserver.vocabulary import Document

ANNOTATION: Final = "podpreset.admission.kubernetes.io/podpreset-"
# Ephemeral containers are not there yet when a pod is created.
_CONTAINERS: Final = ("containers", "initContainers")
# What is added to a pod, and to each container, and the fields by which an item is known: one that has any of
# them in common with another must be the same. Sources of variables are known by nothing: all are added.
_OF_POD: Final = {"volumes": ("name",)}
_OF_CONTAINER: Final = {"env": ("name",), "envFrom": (), "volumeMounts": ("name", "mountPath")}
# To merge an item takes as long as other work does with so many bytes.
_ITEM_BYTES: Final = 64


class PresetConflict(ValueError):
    """A preset has an item that the pod, or a preset before it, has otherwise.

    preset: its name. item: as `env[0]`. key: the field that both have in common. place: where the other is.
    """

    def __init__(self, preset: str, item: str, key: str, place: str) -> None:
        super().__init__(
            f"{item} of PodPreset {quote(preset)} has the {key} of another in {place}, and is not the same"
        )
        self.preset, self.item, self.key, self.place = preset, item, key, place


class _Addition(NamedTuple):
    """An item that a preset adds to a list. path: where it stands in the preset's spec."""

    preset: str
    path: str
    item: Document


def merge(pod: Document, presets: Sequence[Document]) -> Document:
    """Returns a pod with all presets, and annotations that name them. Raises PresetConflict.

    The pod that is given stays as it is. To merge the same presets again changes nothing more.
    """
    additions = {field: _additions(presets, field) for field in (*_OF_POD, *_OF_CONTAINER)}
    spec = _extended(pod["spec"], _OF_POD, additions, "spec")
    for field in _CONTAINERS:
        if field in spec:
            spec[field] = [
                _extended(container, _OF_CONTAINER, additions, where)
                for where, container in items(spec, field, "spec")
            ]
    meta = pod["metadata"]
    annotations = {
        f"{ANNOTATION}{preset['metadata']['name']}": preset["metadata"]["resourceVersion"]
        for preset in presets
    }
    meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **annotations}}
    return {**pod, "metadata": meta, "spec": spec}


def work_of_merge(spec: Document, added_bytes: int) -> SizeClass:
    """Returns how much work it is to merge presets into a pod. added_bytes: to all containers together."""
    count = len(spec.get("volumes") or ()) + sum(
        len(container.get(field) or ())
        for container in containers(spec, *_CONTAINERS)
        for field in _OF_CONTAINER
    )
    return max(work_with(spec), size_class(added_bytes + count * _ITEM_BYTES))


def _additions(presets: Sequence[Document], field: str) -> Sequence[_Addition]:
    return [
        _Addition(preset["metadata"]["name"], path, item)
        for preset in presets
        for path, item in items(preset.get("spec") or {}, field, "")
    ]


def _extended(
    value: Document,
    lists: Mapping[str, tuple[str, ...]],
    additions: Mapping[str, Sequence[_Addition]],
    place: str,
) -> Document:
    """Returns a pod's spec, or a container, with all additions to its lists. Raises PresetConflict.

    lists: by their fields, the fields by which items are known. place: its path in the pod.
    """
    extended = dict(value)
    for field, keys in lists.items():
        if added := additions[field]:
            there = value.get(field) or []
            extended[field] = _joined(there, added, keys, place) if keys else _appended(there, added)
    return extended


def _joined(
    there: Sequence[Document], added: Sequence[_Addition], keys: tuple[str, ...], place: str
) -> Sequence[Document]:
    """Returns a list with the additions whose names, by the first of the keys, it has not yet.

    Raises PresetConflict.
    """
    known = [{item.get(key, ""): item for item in there} for key in keys]
    joined = [*there]
    for preset, path, item in added:
        if item.get(keys[0], "") not in known[0]:
            # Nobody who changes one container may change others with it.
            joined.append(copy.deepcopy(item))
        for key, found in zip(keys, known, strict=True):
            if found.setdefault(item.get(key, ""), item) != item:
                raise PresetConflict(preset, path, key, place)
    return joined


def _appended(there: Sequence[Document], added: Sequence[_Addition]) -> Sequence[Document]:
    """Returns a list with all additions at its end, where they may stand already. Their order matters.

    Kubernetes appends them again whenever a webhook has it go through its plugins a second time.
    """
    sources = [copy.deepcopy(each.item) for each in added]
    return there if there[-len(sources) :] == sources else [*there, *sources]
