"""Refuses requests that take much memory while the server is short of it, the most expensive first.

How much a request may take is estimated from its head and the number of objects. Health, /metrics, discovery
and OpenAPI are never refused, nor are small writes, reads of single objects and of pages; so leases,
heartbeats and administrators keep working.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final, NamedTuple

from aiohttp import hdrs

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.flowcontrol.work_estimates import list_limit
from apiserver.load.memory_budget import MemoryBudget, Pressure
from apiserver.meta.vocabulary import SYSTEM_MASTERS, Query
from apiserver.registry.served_resource import ServedResource

_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class _Limits(NamedTuple):
    """The limits on the work that is still accepted. watches: whether new watches may begin."""

    body_bytes: int
    objects: int
    watches: bool


# A page of most clients, client-go's and kubectl's among them, has 500 objects.
_LIMITS: Final = MappingProxyType(
    {
        Pressure.HIGH: _Limits(body_bytes=256 * 1024, objects=500, watches=True),
        Pressure.CRITICAL: _Limits(body_bytes=16 * 1024, objects=50, watches=False),
    }
)


class LoadShedding:
    """Refuses requests while memory is low. objects_of: returns the number of objects of a resource."""

    def __init__(self, budget: MemoryBudget, objects_of: Callable[[ServedResource], int]) -> None:
        self.budget = budget
        self._objects_of = objects_of

    def check(self, call: ApiCall, resource: ServedResource) -> None:
        """Refuse a call for which memory is too short. Raises TooManyRequests."""
        limits = _LIMITS.get(self.budget.pressure)
        if limits is None:
            return
        verb = call.info.verb
        if verb in _WRITES and _body_bytes_max(call) > self._body_bytes(limits, call):
            raise self.budget.refusal("body")
        if verb == "watch":
            if _has_initial_state(call.query) and self._objects_of(resource) > limits.objects:
                raise self.budget.refusal("initial_events")
            if not limits.watches and not _is_system_masters(call):
                raise self.budget.refusal("watch")
        elif verb in ("list", "deletecollection"):
            objects = self._objects_of(resource)
            if objects > limits.objects and not 0 < _page(call.query) <= limits.objects:
                raise self.budget.refusal(verb)

    def _body_bytes(self, limits: _Limits, call: ApiCall) -> int:
        """Returns how long a body may be, which is not limited for administrators, who may free memory."""
        return _LIMITS[Pressure.HIGH].body_bytes if _is_system_masters(call) else limits.body_bytes


def _is_system_masters(call: ApiCall) -> bool:
    return SYSTEM_MASTERS in call.user.groups


def _body_bytes_max(call: ApiCall) -> float:
    """Returns the largest length that a body may have, as a chunked one does not announce it."""
    length = call.request.content_length
    if length is not None:
        return length
    return float("inf") if hdrs.TRANSFER_ENCODING in call.request.headers else 0


def _has_initial_state(query: Query) -> bool:
    return "sendInitialEvents" in query or query.get("resourceVersion", [""])[0] in ("", "0")


def _page(query: Query) -> int:
    """Returns the limit of a list; 0 if there is none, and where cached objects may be sent as a whole."""
    return 0 if query.get("resourceVersion", [""])[0] == "0" else list_limit(query)
