"""The slots of requests in flight: how many reads and writes there may be, and who gets them. Row Q05.

With API Priority and Fairness on, which is the default, these are the slots of what that does not bound: the
requests of the exempt level, beside those of `system:masters`; the others have seats in their place. How both
fit together is told by `apiserver.flowcontrol`. Scrapes have slots of their own in either case.

A request gets its slot when nothing but work is left: its user may do it, and its body is there. It gives the
slot back when its answer is made (`Slot.release`), not when the client has read it: a client that sends or
reads slowly keeps no slot from others.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Final, Protocol

from apiserver.load.user_shares import SharedPool, holder_of
from apiserver.meta.errors import TooManyRequests
from apiserver.meta.vocabulary import MASTERS, RequestInfo, UserInfo
from apiserver.metrics.requests import InFlight, RequestCount

# Renewals of leases that nobody else's requests can keep from a slot: several for each component that elects
# leaders or sends heartbeats at the same moment, and few enough to add nothing to the server's load.
LEASE_SLOTS: Final = 32
# Whose leases these are: the subjects of Kubernetes' flow schemas `system-leader-election` and
# `system-node-high`.
_LEASE_VERBS: Final = frozenset({"get", "create", "update", "patch"})
_LEASE_USERS: Final = frozenset({"system:kube-controller-manager", "system:kube-scheduler"})
# A scrape takes a while, and few ask for one.
SCRAPES_MAX: Final = 8
_PROBES: Final = frozenset({"livez", "readyz", "healthz", "version"})
_LEASE_GROUPS: Final = frozenset({"system:serviceaccounts:kube-system", "system:nodes"})


class SlotLimit:
    """The slots of one kind of requests: reads, or writes.

    Users share them, each up to what `SharedPool` gives. As in kube-apiserver a request of `system:masters`
    gets one in any case, and leases of the system's components have slots in reserve.

    slots_max: 0 for no limit.
    in_flight: counts the requests of the kind, those too whose bodies are not there yet.
    is_apart: who asks for these slots waits for no others, whatever else limits requests.
    """

    def __init__(
        self, slots_max: int, in_flight: RequestCount, *, lease_group: str, is_apart: bool = False
    ) -> None:
        """lease_group: the API group of leases."""
        self.is_apart = is_apart
        self.in_flight = in_flight
        self._shared = SharedPool(slots_max or math.inf)
        self._for_leases = SharedPool(LEASE_SLOTS)
        self._lease_group = lease_group

    def take(self, holder: str, user: UserInfo, info: RequestInfo) -> SharedPool | None:
        """Take a slot. holder: of `user`; see `holder_of`.

        Returns the pool that it was taken from; None if the request needs none. Raises TooManyRequests.
        """
        if self._shared.take(holder):
            return self._shared
        if MASTERS in user.groups:
            return None
        if self._is_of_the_system(user, info) and self._for_leases.take(holder):
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


class SlotLimits:
    """The slots of reads, of writes, and of what an operator must be able to ask whatever the others do.

    Probes, and the version, have no limit: their answers are small, and what is asked of the store for them
    is asked once for all (`health.SharedCheck`). Metrics have a few slots of their own.
    """

    def __init__(
        self, in_flight: InFlight, *, read_only_max: int, mutating_max: int, lease_group: str
    ) -> None:
        """lease_group: the API group of leases."""
        self.read_only = SlotLimit(read_only_max, in_flight.read_only, lease_group=lease_group)
        self.mutating = SlotLimit(mutating_max, in_flight.mutating, lease_group=lease_group)
        self._scrapes = SlotLimit(SCRAPES_MAX, in_flight.read_only, lease_group=lease_group, is_apart=True)
        self._probes = SlotLimit(0, in_flight.read_only, lease_group=lease_group, is_apart=True)

    def of_path(self, path: str) -> SlotLimit:
        """Returns the slots of reads of a path that leads to no resource."""
        first = path.strip("/").partition("/")[0]
        if first in _PROBES:
            return self._probes
        return self._scrapes if first == "metrics" else self.read_only


class RequestSlot(Protocol):
    """What a request takes before it is worked on: a `Slot`, or the seats of its flow."""

    def take(self) -> Awaitable[None] | None:
        """Take it, once. Returns None, or what has to be awaited before it is there.

        Raises TooManyRequests, as what is awaited does.
        """
        ...

    def pause(self) -> None:
        """Give it back while the request waits for another server, as a webhook. Pauses may overlap."""
        ...

    def resume(self) -> None:
        """End a pause."""
        ...

    def release(self) -> None:
        """Give it back; it may be called again."""
        ...


class Slot:
    """The slot of one request, from when it is counted as in flight until its answer is made."""

    __slots__ = ("_holder", "_info", "_limit", "_pool", "_user")

    def __init__(self, limit: SlotLimit, user: UserInfo, info: RequestInfo) -> None:
        self._limit: SlotLimit | None = limit  # None once it is released
        self._user, self._info = user, info
        self._holder: str | None = None  # once it is taken
        self._pool: SharedPool | None = None
        limit.in_flight.value += 1

    def take(self) -> None:
        """Take the slot, once. Raises TooManyRequests."""
        if self._holder is None and self._limit is not None:
            holder = holder_of(self._user)
            self._pool = self._limit.take(holder, self._user, self._info)
            self._holder = holder

    # A slot is not given back meanwhile: without fairness nobody waits for one, and these bound what waits.

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def release(self) -> None:
        """Give the slot back; it may be called again."""
        limit = self._limit
        if limit is not None:
            self._limit = None
            limit.in_flight.value -= 1
            if self._pool is not None and self._holder is not None:
                self._pool.give_back(self._holder)
