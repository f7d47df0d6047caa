"""Servers that emulate different releases, and share a store.

All of them can read the versions of the oldest: objects are stored in its versions, and types that it does
not have are not served by the others either, until it is gone. In the same way an etcd cluster has the
version of its oldest member.

Two releases with a common type, but no common version of it, cannot share a store: one could not read the
objects of the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from apiserver.meta.releases.emulation import MAJOR, EmulatedRelease
from apiserver.meta.releases.lifecycles import Stability, known_lifecycles


def shared_release(releases: Iterable[EmulatedRelease]) -> EmulatedRelease:
    """Returns the oldest of some releases, and the oldest that any of them is compatible with."""
    found = tuple(releases)
    return EmulatedRelease(min(each.minor for each in found), min(each.min_compatible for each in found))


def is_readable(stored_for: EmulatedRelease, release: EmulatedRelease) -> bool:
    """Whether a release can read the store of another one, and of those that it is compatible with."""
    return stored_for.minor <= release.minor and stored_for.min_compatible <= release.min_compatible


@cache
def nothing_in_common(one: int, other: int) -> str:
    """Returns why servers of releases 1.`one` and 1.`other` cannot share a store; empty if they can.

    Alpha versions do not count: types with only alpha versions are not served together.
    """
    versions: dict[tuple[str, str], tuple[set[str], set[str]]] = {}
    for each in known_lifecycles().values():
        if each.stability is not Stability.ALPHA and "/" not in each.resource:
            of_both = versions.setdefault((each.group, each.resource), (set(), set()))
            for minor, found in zip((one, other), of_both, strict=True):
                if each.is_in(minor):
                    found.add(each.version)
    for (group, resource), (here, there) in versions.items():
        if here and there and not here & there:
            return (
                f"Kubernetes {MAJOR}.{one} and {MAJOR}.{other} have no version of "
                f"{resource}.{group} in common: first upgrade to a release that has both versions"
            )
    return ""
