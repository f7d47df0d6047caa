"""Helpers for pod specs that several plugins share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apiserver.load.size_class import SizeClass
from apiserver.meta.vocabulary import Document, GroupResource

PODS: Final = GroupResource("", "pods")
# The fields of pods that hold containers, and what messages call those.
CONTAINERS: Final = {
    "containers": "container",
    "initContainers": "init container",
    "ephemeralContainers": "ephemeral container",
}
MIRROR: Final = "kubernetes.io/config.mirror"
# A check of all containers takes some 20 µs for each.
LARGE_CONTAINERS: Final = 100
HUGE_CONTAINERS: Final = 1_000


def containers(spec: Document, *fields: str) -> Iterator[Document]:
    """Yields the containers in some fields of `CONTAINERS`; in all of them if none is given."""
    for field in fields or CONTAINERS:
        yield from spec.get(field) or ()


def work_with(spec: Document) -> SizeClass:
    """Returns an estimate of the work for checking all containers of a pod."""
    count = sum(len(spec.get(field) or ()) for field in CONTAINERS)
    if count <= LARGE_CONTAINERS:
        return SizeClass.SMALL
    return SizeClass.LARGE if count <= HUGE_CONTAINERS else SizeClass.HUGE
