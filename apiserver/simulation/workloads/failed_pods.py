"""How often pods of DaemonSets have failed on a node, and how long the last of them stays there. Pure.

A pod that fails at once would otherwise be replaced as fast as the store takes it, for ever.
Source of the rules: kubernetes, pkg/controller/daemon (failedPodsBackoff); k8s.io/client-go,
util/flowcontrol/backoff.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from apiserver.controllers.work_queue import Backoff

# A tenth of Kubernetes'.
BACKOFF: Final = Backoff(base_s=0.1, max_s=90.0)
# Counting begins anew after so long without a failure: twice the longest delay, as in Kubernetes.
FORGET_S: Final = 2 * BACKOFF.max_s
# Places that are remembered. Of more, the oldest may fail again without a delay.
PLACES_MAX: Final = 10_000


class DaemonPlace(NamedTuple):
    """The node that a DaemonSet has a pod on. generation: of the DaemonSet; a change of it begins anew."""

    uid: str
    generation: int
    node: str


@dataclass(slots=True)
class _Failures:
    count: int
    last_at: float


class FailedPods:
    """What has failed where. It is forgotten when another server leads, as by kube-controller-manager."""

    def __init__(self) -> None:
        self._failures: dict[DaemonPlace, _Failures] = {}  # those that failed last at the end

    def wait_s(self, place: DaemonPlace, now: float) -> float:
        """Returns for how long a failed pod still stays at its place. now: seconds since 1970."""
        found = self._known(place, now)
        if found is None:
            return 0.0
        return max(found.last_at + BACKOFF.delay_s(found.count - 1) - now, 0.0)

    def count(self, place: DaemonPlace, now: float) -> None:
        """Take note that a failed pod was deleted."""
        found = self._known(place, now)
        self._failures.pop(place, None)
        self._failures[place] = _Failures(1 if found is None else found.count + 1, now)
        if len(self._failures) > PLACES_MAX:
            del self._failures[next(iter(self._failures))]

    def _known(self, place: DaemonPlace, now: float) -> _Failures | None:
        found = self._failures.get(place)
        return None if found is None or now - found.last_at > FORGET_S else found
