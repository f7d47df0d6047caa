"""What several plugins ask about pods."""

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
    """fields: of `CONTAINERS`; all if there are none."""
    for field in fields or CONTAINERS:
        yield from spec.get(field) or ()
