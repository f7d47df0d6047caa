"""What tests of fairness share: levels, flows and requests by hand."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.flowcontrol.defaults import FLOW_SCHEMAS, PRIORITY_LEVELS
from apiserver.catalogue.flowcontrol.flow_schemas import MANDATORY_FLOW_SCHEMAS
from apiserver.catalogue.flowcontrol.priority_level_configurations import MANDATORY_PRIORITY_LEVELS
from apiserver.endpoints.flowcontrol.flow_control import FlowControl, deal, flow_hash
from apiserver.endpoints.flowcontrol.flow_schemas import FlowSchema
from apiserver.endpoints.flowcontrol.flow_statistics import FlowStatistics
from apiserver.endpoints.flowcontrol.priority_levels import LevelSpec
from apiserver.endpoints.flowcontrol.queue_set import QueuedFlow, QueueRules, QueueSet, Request
from apiserver.endpoints.flowcontrol.work_estimates import ONE_SEAT, WorkEstimate
from apiserver.endpoints.request_info import parse_target
from apiserver.meta.vocabulary import Document, RequestInfo, UserInfo
from apiserver.metrics.requests import InFlight

ALICE = UserInfo("alice", ("dev", "system:authenticated"))
PODS = parse_target("GET", "/api/v1/namespaces/default/pods", False)


def target(method: str, path: str, *, is_watch: bool = False) -> RequestInfo:
    return parse_target(method, path, is_watch)


def level_spec(name: str, spec: Document) -> LevelSpec:
    return LevelSpec.of({"metadata": {"name": name, "uid": f"uid-of-{name}"}, "spec": spec})


def flow_schema(name: str, spec: Document) -> FlowSchema:
    return FlowSchema.of({"metadata": {"name": name, "uid": f"uid-of-{name}"}, "spec": spec})


LEVELS: Final = [level_spec(*each) for each in PRIORITY_LEVELS.items()]
SCHEMAS: Final = [flow_schema(*each) for each in FLOW_SCHEMAS.items()]


def mandatory_only(in_flight: InFlight | None = None, now: float = 0.0) -> FlowControl:
    """Returns the control of a server of 600 seats without any objects."""
    return FlowControl(
        600,
        [level_spec(*each) for each in MANDATORY_PRIORITY_LEVELS.items()],
        [flow_schema(*each) for each in MANDATORY_FLOW_SCHEMAS.items()],
        in_flight or InFlight(),
        now,
    )


def flow(name: str, rules: QueueRules, hand_size: int = 2) -> QueuedFlow:
    """The flow of a user in a level."""
    hashed = flow_hash("schema", name)
    hand = deal(hashed, rules.queues, min(hand_size, rules.queues)) if rules.queues else ()
    return QueuedFlow(FlowStatistics("level", "schema"), name, hashed, hand)


def request(of: QueuedFlow, estimate: WorkEstimate = ONE_SEAT, user: UserInfo = ALICE) -> Request:
    made = Request(of, user, PODS)
    made.estimate, made.seats = estimate, estimate.seats_max
    return made


def queue_set(seats: int, rules: QueueRules) -> QueueSet:
    return QueueSet(0.0, rules, seats)
