"""All priority levels and FlowSchemas of a server: classifies requests, and distributes seats to levels.

Source: k8s.io/apiserver, pkg/util/flowcontrol/apf_controller.go.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from apiserver.endpoints.flowcontrol.flow_schemas import FlowSchema
from apiserver.endpoints.flowcontrol.flow_statistics import FlowStatistics
from apiserver.endpoints.flowcontrol.priority_levels import CATCH_ALL, LevelSpec, PriorityLevel
from apiserver.endpoints.flowcontrol.queue_set import QueuedFlow
from apiserver.endpoints.flowcontrol.request_kinds import RequestKinds
from apiserver.endpoints.flowcontrol.seat_allocation import allocate
from apiserver.meta.vocabulary import RequestInfo, UserInfo
from apiserver.metrics.requests import InFlight

log = logging.getLogger(__name__)

# Seats move between levels so often.
ADJUST_EVERY_S: Final = 10.0
# Flows that are remembered, some kilobyte each at most. If there are more, all are forgotten: to find one
# again takes some 20 µs.
FLOWS_MAX: Final = 4_096
# Longer paths, and users with more groups, are not remembered.
_PATH_LENGTH_MAX: Final = 256
_GROUPS_MAX: Final = 64
_HASH_BYTES: Final = 8


class ExecutingRequests(NamedTuple):
    """The executing requests of a flow. seats: include those that ended requests keep."""

    executing: int = 0
    seats: int = 0


class Flow(QueuedFlow):
    """A flow of requests: those of one schema with the same distinguisher.

    head: the response headers that name the schema and the level.
    """

    __slots__ = ("head", "is_exempt", "level", "schema")

    def __init__(
        self, schema: FlowSchema, level: PriorityLevel, distinguisher: str, statistics: FlowStatistics
    ) -> None:
        self.schema, self.level = schema, level
        self.head = _head(schema.uid, level.spec.uid)
        spec = level.spec
        self.is_exempt = spec.is_exempt
        if spec.queues:
            hashed = flow_hash(schema.name, distinguisher)
            super().__init__(statistics, distinguisher, hashed, deal(hashed, spec.queues, spec.hand_size))
        else:
            super().__init__(statistics)


def _head(schema_uid: str, level_uid: str) -> bytes:
    # Go writes the names of headers like this.
    return b"X-Kubernetes-Pf-Flowschema-Uid: %b\r\nX-Kubernetes-Pf-Prioritylevel-Uid: %b\r\n" % (
        _header_value(schema_uid),
        _header_value(level_uid),
    )


def _header_value(uid: str) -> bytes:
    """Returns a UID as a header value; empty if it was forged to break the header."""
    return uid.encode() if uid.isascii() and uid.isprintable() else b""


def flow_hash(schema: str, flow: str) -> int:
    """Returns a hash of a flow that is equal on every server. flow: its distinguisher within its schema."""
    digest = hashlib.sha256(f"{schema}\0{flow}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:_HASH_BYTES], "little")


def deal(hashed: int, queues: int, hand_size: int) -> tuple[int, ...]:
    """Returns the queues of a flow: distinct numbers, as a dealer takes cards from a deck.

    Two flows seldom have the same hand: a flow that fills its queues leaves empty ones to most others.
    Source: k8s.io/apiserver, pkg/util/shufflesharding.
    """
    hand: list[int] = []
    for dealt in range(hand_size):
        hashed, card = divmod(hashed, queues - dealt)
        # It is the number of a card among those that are left.
        for taken in sorted(hand):
            if card >= taken:
                card += 1
        hand.append(card)
    return tuple(hand)


_Key: TypeAlias = tuple[str, tuple[str, ...], str, str, str, str, str]


class FlowControl:
    """The flows and priority levels of one server.

    seats: the seats that all levels share.
    mandatory_levels, mandatory_schemas: `exempt` and `catch-all` of each, used in place of objects that do
    not exist.
    """

    def __init__(
        self,
        seats: int,
        mandatory_levels: Iterable[LevelSpec],
        mandatory_schemas: Iterable[FlowSchema],
        in_flight: InFlight,
        now: float,
    ) -> None:
        """in_flight: the number of requests of each kind, waiting ones included."""
        self.seats = seats
        self._mandatory_levels = tuple(mandatory_levels)
        self._mandatory_schemas = tuple(mandatory_schemas)
        self.levels: Mapping[str, PriorityLevel] = {}
        self.schemas: tuple[FlowSchema, ...] = ()
        self.kinds = RequestKinds(in_flight, now)
        self.fair_fraction = 0.0
        self._catch_all = next(each for each in self._mandatory_schemas if each.name == CATCH_ALL)
        self._flows: dict[_Key, Flow] = {}
        self._statistics: dict[tuple[str, str], FlowStatistics] = {}
        self.configure((), (), now)

    @property
    def statistics(self) -> Iterable[FlowStatistics]:
        return list(self._statistics.values())

    def under_way(self) -> Mapping[FlowStatistics, ExecutingRequests]:
        """Returns the executing requests by flow, of flows that have any."""
        found: dict[FlowStatistics, ExecutingRequests] = {}
        for level in self.levels.values():
            for requests, count in ((level.queue_set.executing, 1), (level.queue_set.lingering, 0)):
                for each in requests:
                    executing, seats = found.get(each.flow.statistics, ExecutingRequests())
                    found[each.flow.statistics] = ExecutingRequests(executing + count, seats + each.seats)
        return found

    def classify(self, user: UserInfo, target: RequestInfo) -> Flow:
        """Returns the flow of a request."""
        key = (
            user.name,
            user.groups,
            target.verb,
            target.group if target.is_resource else target.path,
            target.resource,
            target.subresource,
            target.namespace,
        )
        flow = self._flows.get(key)
        if flow is None:
            flow = self._find_flow(user, target)
            if len(target.path) <= _PATH_LENGTH_MAX and len(user.groups) <= _GROUPS_MAX:
                if len(self._flows) >= FLOWS_MAX:
                    self._flows.clear()
                self._flows[key] = flow
        return flow

    def _find_flow(self, user: UserInfo, target: RequestInfo) -> Flow:
        # One of the mandatory schemas matches every user, authenticated or not.
        schema = next((each for each in self.schemas if each.matches(user, target)), self._catch_all)
        level = self.levels[schema.level]
        statistics = self._statistics.get((level.name, schema.name))
        if statistics is None:
            statistics = FlowStatistics(level.name, schema.name)
            self._statistics[level.name, schema.name] = statistics
        return Flow(schema, level, schema.flow_of(user, target), statistics)

    # ---- configuration

    def configure(self, levels: Iterable[LevelSpec], schemas: Iterable[FlowSchema], now: float) -> None:
        """Replace the levels and schemas. Schemas whose level is missing match nothing.

        A deleted level ends with its last request.
        """
        specs = {spec.name: spec for spec in (*self._mandatory_levels, *levels)}
        found: dict[str, PriorityLevel] = {}
        for name, spec in specs.items():
            level = found[name] = self.levels.get(name) or PriorityLevel(spec, now)
            level.spec, level.is_quiescing = spec, False
        usable = (each for each in schemas if each.level in found)
        by_name = {each.name: each for each in (*self._mandatory_schemas, *usable)}
        self.schemas = tuple(sorted(by_name.values(), key=lambda each: each.order))
        self._catch_all = by_name[CATCH_ALL]
        for name, level in self.levels.items():
            if name not in found and not level.queue_set.is_idle:
                level.is_quiescing = True
                found[name] = level
        self._share_out(found, now)
        self._forget_statistics()

    def adjust(self, now: float) -> None:
        """Move seats between levels, by the demand of each since the last call."""
        levels = {
            name: level
            for name, level in self.levels.items()
            if not (level.is_quiescing and level.queue_set.is_idle)
        }
        if len(levels) < len(self.levels):
            self._share_out(levels, now)
        else:
            self._allocate(now)

    def _share_out(self, levels: Mapping[str, PriorityLevel], now: float) -> None:
        for name, level in self.levels.items():
            level.is_gone = levels.get(name) is not level
        self.levels = levels
        self._flows.clear()
        shares = sum(level.spec.shares for level in levels.values())
        for level in levels.values():
            level.set_shares(self.seats, shares)
        self.kinds.set_capacities(
            executing=sum(level.nominal for level in levels.values()),
            waiting=sum(level.spec.queues * level.spec.queue_length_max for level in levels.values()),
            now=now,
        )
        self._allocate(now)

    def _allocate(self, now: float) -> None:
        levels = list(self.levels.values())
        for level in levels:
            level.queue_set.end_period(now)
        limited = [level for level in levels if not level.spec.is_exempt]
        exempt = [level for level in levels if level.spec.is_exempt]
        nominal = sum(level.nominal for level in levels)
        # What the exempt level uses, the others do not have.
        left = nominal - sum(level.needed for level in exempt)
        claims = [level.claim() for level in limited]
        low, needed = sum(level.low for level in limited), sum(level.needed for level in limited)
        self.fair_fraction = 0.0
        if left <= low:
            seats = [float(level.low) for level in limited]
        elif left <= needed:
            part = (left - low) / (needed - low)
            seats = [level.low + (level.needed - level.low) * part for level in limited]
        else:
            seats, self.fair_fraction = allocate(nominal, claims)
        for level, current in zip(limited, seats, strict=True):
            level.set_current(math.floor(current + 0.5), server_seats=self.seats, now=now)
        for level in exempt:
            level.target = level.needed
            level.set_current(level.needed, server_seats=self.seats, now=now)

    def _forget_statistics(self) -> None:
        """Drop the statistics of deleted schemas and levels, which would fill memory eventually."""
        schemas, under_way = {each.name for each in self.schemas}, self.under_way()
        for (level, schema), statistics in list(self._statistics.items()):
            is_idle = statistics not in under_way and not statistics.waiting
            if is_idle and not (level in self.levels and schema in schemas):
                del self._statistics[level, schema]
