"""Limits the reads and writes in flight by slots, which users share (row Q05).

With API Priority and Fairness on, which is the default, slots limit only requests of the exempt level that
are not from `system:masters`; all others take seats instead. `endpoints.flowcontrol` explains how both fit
together. Scrapes have separate slots in either case.

A request gets its slot when it is authorized and its body has arrived. It gives the slot back when its
response is made (`Slot.release`), not when the client has read it: a client that sends or reads slowly holds
no slot.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Final, Protocol

from apiserver.load.user_shares import SharedPool, holder_of
from apiserver.meta.errors import TooManyRequests
from apiserver.meta.vocabulary import SYSTEM_MASTERS, RequestInfo, UserInfo
from apiserver.metrics.requests import InFlight, RequestCount

# Slots reserved for renewals of leases: several for each component that elects leaders or sends heartbeats at
# the same moment, and few enough to add nothing to the server's load.
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
    """The slots for one kind of requests: reads, or writes.

    Users share them, each up to the share that `SharedPool` grants. As in kube-apiserver a request of
    `system:masters` gets one in any case, and leases of the system's components have slots in reserve.

    slots_max: 0 for no limit.
    in_flight: counts the requests of the kind, including those whose bodies have not arrived yet.
    is_apart: requests for these slots wait for no others, whatever else limits requests.
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

        Returns the pool that the slot was taken from; None if the request needs none. Raises TooManyRequests.
        """
        if self._shared.take(holder):
            return self._shared
        if SYSTEM_MASTERS in user.groups:
            return None
        if self._is_of_the_system(user, info) and self._for_leases.take(holder):
            return self._for_leases
        raise TooManyRequests

    def _is_of_the_system(self, user: UserInfo, info: RequestInfo) -> bool:
        """Whether a component of the system reads or writes a lease with this request."""
        return (
            info.resource == "leases"
            and info.group == self._lease_group
            and info.verb in _LEASE_VERBS
            and (user.name in _LEASE_USERS or not _LEASE_GROUPS.isdisjoint(user.groups))
        )


class SlotLimits:
    """The slots for reads, for writes, and for requests that an operator must always be able to make.

    Probes and /version have no limit: their responses are small, and concurrent probes share one check of the
    store (`health.SharedCheck`). Metrics have a few separate slots.
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
        """Returns the slots for reads of a path that is not a resource."""
        first = path.strip("/").partition("/")[0]
        if first in _PROBES:
            return self._probes
        return self._scrapes if first == "metrics" else self.read_only


class RequestSlot(Protocol):
    """The slot, or the seats of its flow, that a request takes before its work begins."""

    def take(self) -> Awaitable[None] | None:
        """Take it, once; returns None, or an awaitable that ends when it is taken.

        Raises TooManyRequests, as the awaitable does.
        """
        ...

    def pause(self) -> None:
        """Release the slot while the request waits for another server, as a webhook. Pauses may overlap."""
        ...

    def resume(self) -> None:
        """End a pause, and take the slot again."""
        ...

    def release(self) -> None:
        """Release the slot; may be called again."""
        ...


class Slot:
    """The slot of one request, which counts as in flight until its response is made."""

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

    # The slot is not released meanwhile: without fairness no request waits for one, and slots bound the
    # waiting ones.

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def release(self) -> None:
        """Release the slot; may be called again."""
        limit = self._limit
        if limit is not None:
            self._limit = None
            limit.in_flight.value -= 1
            if self._pool is not None and self._holder is not None:
                self._pool.give_back(self._holder)
