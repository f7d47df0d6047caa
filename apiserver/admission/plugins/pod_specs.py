"""Helpers for pod specs that several plugins share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apiserver.vocabulary import Document, GroupResource

PODS: Final = GroupResource("", "pods")
# The fields of pods that hold containers, and what messages call those.
CONTAINERS: Final = {
    "containers": "container",
    "initContainers": "init container",
    "ephemeralContainers": "ephemeral container",
}
MIRROR: Final = "kubernetes.io/config.mirror"


def containers(spec: Document, *fields: str) -> Iterator[Document]:
    """Yields the containers in some fields of `CONTAINERS`; in all of them if none is given."""
    for field in fields or CONTAINERS:
        yield from spec.get(field) or ()
