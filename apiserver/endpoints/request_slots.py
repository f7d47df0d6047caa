"""The slots of requests in flight: how many reads and writes there may be, and who gets them. Row Q05.

A request gets its slot when nothing but work is left: its user may do it, and its body is there. It gives the
slot back when its answer is made (`Slot.release`), not when the client has read it: a client that sends or
reads slowly keeps no slot from others.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from apiserver.endpoints.request_info import RequestInfo
from apiserver.endpoints.shared_pool import SharedPool
from apiserver.errors import TooManyRequests
from apiserver.metrics.requests import Count
from apiserver.vocabulary import MASTERS, UserInfo

# Renewals of leases that nobody else's requests can keep from a slot: several for each component that elects
# leaders or sends heartbeats at the same moment, and few enough to add nothing to the server's load.
LEASE_SLOTS: Final = 32
# Whose leases these are: the subjects of Kubernetes' flow schemas `system-leader-election` and
# `system-node-high`.
_LEASE_VERBS: Final = frozenset({"get", "create", "update", "patch"})
_LEASE_USERS: Final = frozenset({"system:kube-controller-manager", "system:kube-scheduler"})
_LEASE_GROUPS: Final = frozenset({"system:serviceaccounts:kube-system", "system:nodes"})


class SlotLimit:
    """The slots of one kind of requests: reads, or writes.

    Users share them, each up to what `SharedPool` gives. As in kube-apiserver a request of `system:masters`
    gets one in any case, and leases of the system's components have slots in reserve.

    slots_max: 0 for no limit.
    in_flight: counts the requests of the kind, those too whose bodies are not there yet.
    """

    def __init__(self, slots_max: int, in_flight: Count, *, lease_group: str) -> None:
        """lease_group: the API group of leases."""
        self.in_flight = in_flight
        self._shared = SharedPool(slots_max or math.inf)
        self._for_leases = SharedPool(LEASE_SLOTS)
        self._lease_group = lease_group

    def take(self, user: UserInfo, info: RequestInfo) -> SharedPool | None:
        """Returns the pool that a slot was taken from; None if the request needs none.

        Raises TooManyRequests.
        """
        if self._shared.take(user.name):
            return self._shared
        if MASTERS in user.groups:
            return None
        if self._is_of_the_system(user, info) and self._for_leases.take(user.name):
            return self._for_leases
        raise TooManyRequests

    def _is_of_the_system(self, user: UserInfo, info: RequestInfo) -> bool:
        """Whether a request is one for a lease by a component of the system."""
        return (
            info.resource == "leases"
            and info.group == self._lease_group
            and info.verb in _LEASE_VERBS
            and (user.name in _LEASE_USERS or not _LEASE_GROUPS.isdisjoint(user.groups))
        )


class SlotLimits(NamedTuple):
    """The slots of reads, and those of writes."""

    read_only: SlotLimit
    mutating: SlotLimit


class Slot:
    """The slot of one request, from when it is counted as in flight until its answer is made."""

    __slots__ = ("_info", "_is_released", "_is_taken", "_limit", "_pool", "_user")

    def __init__(self, limit: SlotLimit, user: UserInfo, info: RequestInfo) -> None:
        self._limit, self._user, self._info = limit, user, info
        self._pool: SharedPool | None = None
        self._is_taken = self._is_released = False
        limit.in_flight.value += 1

    def take(self) -> None:
        """Take the slot, once. Raises TooManyRequests."""
        if not self._is_taken:
            self._pool = self._limit.take(self._user, self._info)
            self._is_taken = True

    def release(self) -> None:
        """Give the slot back; it may be called again."""
        if self._is_released:
            return
        self._is_released = True
        self._limit.in_flight.value -= 1
        if self._pool is not None:
            self._pool.give_back(self._user.name)
