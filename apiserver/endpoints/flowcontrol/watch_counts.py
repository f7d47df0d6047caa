"""Counts of open watches, from which the cost of a write is estimated.

Only watches of this server count; selectors are ignored, except the one by which the watch cache finds the
watches of pods. Source: k8s.io/apiserver, pkg/util/flowcontrol/watch_tracker.go.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, TypeAlias

from apiserver.meta.vocabulary import RequestInfo

_GroupResource: TypeAlias = tuple[str, str]
# The field that kubelets select by, for each resource that has one: a watch with a value for it is sent few
# events, and is not counted.
INDEXED_FIELDS: Final = {"pods": "spec.nodeName"}


class WatchCounts:
    """The open watches, by the objects that they watch."""

    def __init__(self) -> None:
        # By group and resource, then by namespace and name; both empty for all.
        self._open: dict[_GroupResource, Counter[tuple[str, str]]] = {}

    def add(self, target: RequestInfo, name: str) -> None:
        """Count a watch that opens. name: that of the only object that it watches; empty for all."""
        self._open.setdefault((target.group, target.resource), Counter())[target.namespace, name] += 1

    def discard(self, target: RequestInfo, name: str) -> None:
        """Note that a counted watch has ended."""
        key, scope = (target.group, target.resource), (target.namespace, name)
        scopes = self._open[key]
        scopes[scope] -= 1
        if not scopes[scope]:
            del scopes[scope]
            if not scopes:
                del self._open[key]

    def interested_in(self, target: RequestInfo) -> int:
        """Returns the number of watches that may have to be sent an event about a write.

        Tokens of service accounts are not stored.
        """
        if target.subresource == "token" and target.resource == "serviceaccounts":
            return 0
        scopes = self._open.get((target.group, target.resource))
        if scopes is None:
            return 0
        count = scopes["", ""]
        if target.namespace:
            count += scopes[target.namespace, ""]
        if target.name:
            count += scopes[target.namespace, target.name]
        return count
