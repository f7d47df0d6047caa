"""What tests of fairness share: levels, flows and requests by hand."""

from __future__ import annotations

from apiserver.endpoints.request_info import RequestInfo, parse_target
from apiserver.flowcontrol.flow_control import deal, flow_hash
from apiserver.flowcontrol.flow_statistics import FlowStatistics
from apiserver.flowcontrol.queue_set import QueuedFlow, QueueRules, QueueSet, Request
from apiserver.flowcontrol.work_estimates import ONE_SEAT, WorkEstimate
from apiserver.meta.vocabulary import UserInfo

ALICE = UserInfo("alice", ("dev", "system:authenticated"))
PODS = parse_target("GET", "/api/v1/namespaces/default/pods", False)


def target(method: str, path: str, *, is_watch: bool = False) -> RequestInfo:
    return parse_target(method, path, is_watch)


def flow(name: str, rules: QueueRules, hand_size: int = 2) -> QueuedFlow:
    """The flow of a user in a level."""
    hashed = flow_hash("schema", name)
    hand = deal(hashed, rules.queues, min(hand_size, rules.queues)) if rules.queues else ()
    return QueuedFlow(FlowStatistics("level", "schema"), name, hashed, hand)


def request(of: QueuedFlow, estimate: WorkEstimate = ONE_SEAT) -> Request:
    return Request(of, ALICE, PODS, estimate)


def queue_set(seats: int, rules: QueueRules) -> QueueSet:
    return QueueSet(0.0, rules, seats)
