"""Pods that wait for a node, grouped by the nodes that they fit on. Pure.

A result for one of a group holds for all: of thousands of pods that fit nowhere, one is tried again when a
node changes, and the next one only if that was bound.
Source of the idea: KEP-4247 (queueing hints), KEP-5598 (signatures of pods).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NewType

import orjson

from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.resources import Key
from apiserver.testkit.simulation.scheduling import PodRequirements, required_terms

Signature = NewType("Signature", bytes)
# Two different ones that are equal by chance are not to be expected.
_SIGNATURE_BYTES: Final = 16


def signature_of(pod: Document, needs: PodRequirements) -> Signature:
    """Returns a signature that pods share if they fit on the same nodes. needs: those of the pod."""
    spec = pod["spec"]
    wishes = [
        spec.get("nodeSelector"),
        required_terms(spec),
        spec.get("tolerations"),
        {name: str(amount) for name, amount in needs.resources.items()},
        sorted(needs.ports),
    ]
    content = orjson.dumps(wishes, option=orjson.OPT_SORT_KEYS)
    return Signature(hashlib.blake2b(content, digest_size=_SIGNATURE_BYTES).digest())


@dataclass(slots=True)
class SimilarPods:
    """Pods that fit on the same nodes.

    example: one of them, from when the group began. needs: those of each.
    may_fit: whether there may be a node for one. why_not: why there is none; empty if unknown, as nodes have
        changed.
    """

    signature: Signature
    example: Document
    needs: PodRequirements
    may_fit: bool = True
    why_not: str = ""
    keys: dict[Key, None] = field(default_factory=dict)  # in the order in which they came

    def refuse(self, why: str) -> None:
        self.may_fit, self.why_not = False, why

    @property
    def first(self) -> Key | None:
        return next(iter(self.keys), None)


class WaitingPods:
    """Groups the pods that wait for a node by their requirements, into at most as many groups as pods."""

    def __init__(self) -> None:
        self._groups: dict[Signature, SimilarPods] = {}
        self._group_of: dict[Key, SimilarPods] = {}

    def join(self, key: Key, pod: Document) -> SimilarPods:
        """Adds a pod to its group, and returns the group."""
        needs = PodRequirements.of(pod)
        signature = signature_of(pod, needs)
        before = self._group_of.get(key)
        if before is not None and before.signature == signature:
            return before
        self.leave(key)
        group = self._groups.get(signature)
        if group is None:
            group = self._groups[signature] = SimilarPods(signature, pod, needs)
        group.keys[key] = None
        self._group_of[key] = group
        return group

    def leave(self, key: Key) -> SimilarPods | None:
        """Removes a pod from its group; returns the group, if it has other pods."""
        group = self._group_of.pop(key, None)
        if group is None:
            return None
        del group.keys[key]
        if group.keys:
            return group
        del self._groups[group.signature]
        return None

    def groups(self) -> list[SimilarPods]:
        return list(self._groups.values())

    def __contains__(self, key: Key) -> bool:
        return key in self._group_of

    def __iter__(self) -> Iterator[Key]:
        return iter(self._group_of)

    def __len__(self) -> int:
        return len(self._group_of)
