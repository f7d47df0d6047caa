"""Counts failures of DaemonSet pods on a node, and decides how long the last failed one stays there. Pure.

Otherwise a pod that fails immediately would be replaced as fast as the store allows, forever.
Source of the rules: kubernetes, pkg/controller/daemon (failedPodsBackoff); k8s.io/client-go,
util/flowcontrol/backoff.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

# A tenth of Kubernetes'.
RETRY_DELAY_S: Final = 0.1
RETRY_DELAY_S_MAX: Final = 90.0
# Counting begins anew after so long without a failure: twice the longest delay, as in Kubernetes.
FORGET_S: Final = 2 * RETRY_DELAY_S_MAX
# Places that are remembered. Of more, the oldest may fail again without a delay.
PLACES_MAX: Final = 10_000


def doubled(first_s: float, failures: int, most_s: float) -> float:
    """Returns a delay that doubles with each failure. failures: at least one."""
    # 2**30 of any delay here are longer than the longest.
    return min(first_s * 2.0 ** min(failures - 1, 30), most_s)


class DaemonSetNode(NamedTuple):
    """A node with a pod of a DaemonSet. generation: that of the DaemonSet, whose change resets the count."""

    uid: str
    generation: int
    node: str


@dataclass(slots=True)
class _FailureCount:
    count: int
    last_at: float


class FailedPods:
    """The failures by DaemonSet and node, which a new leader does not know, as in kube-controller-manager."""

    def __init__(self) -> None:
        self._failures: dict[DaemonSetNode, _FailureCount] = {}  # those that failed last at the end

    def wait_s(self, place: DaemonSetNode, now: float) -> float:
        """Returns for how long a failed pod still stays on its node. now: seconds since 1970."""
        found = self._known(place, now)
        if found is None:
            return 0.0
        return max(found.last_at + doubled(RETRY_DELAY_S, found.count, RETRY_DELAY_S_MAX) - now, 0.0)

    def count(self, place: DaemonSetNode, now: float) -> None:
        """Record that a failed pod was deleted."""
        found = self._known(place, now)
        self._failures.pop(place, None)
        self._failures[place] = _FailureCount(1 if found is None else found.count + 1, now)
        if len(self._failures) > PLACES_MAX:
            del self._failures[next(iter(self._failures))]

    def _known(self, place: DaemonSetNode, now: float) -> _FailureCount | None:
        found = self._failures.get(place)
        return None if found is None or now - found.last_at > FORGET_S else found
