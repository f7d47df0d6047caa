"""All levels together: who is classified how, and how seats go where they are needed."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.flowcontrol.defaults import FLOW_SCHEMAS
from apiserver.catalogue.flowcontrol.flow_schemas import MANDATORY_FLOW_SCHEMAS
from apiserver.endpoints.flowcontrol import dumps
from apiserver.endpoints.flowcontrol.flow_control import FLOWS_MAX, FlowControl
from apiserver.endpoints.flowcontrol.flow_schemas import FlowSchema, Malformed
from apiserver.endpoints.flowcontrol.metrics import FlowControlMetrics
from apiserver.endpoints.flowcontrol.queue_set import Request
from apiserver.endpoints.flowcontrol.seat_allocation import SeatClaim, allocate
from apiserver.endpoints.flowcontrol.work_estimates import WorkEstimate
from apiserver.meta.vocabulary import AUTHENTICATED, SYSTEM_MASTERS, UNAUTHENTICATED, Document, UserInfo
from tests.unit.endpoints.flowcontrol.support import (
    LEVELS,
    SCHEMAS,
    flow_schema,
    level_spec,
    mandatory_only,
    request,
    target,
)

USER: Final = UserInfo("alice", ("dev", AUTHENTICATED))
NODE: Final = UserInfo("system:node:n", ("system:nodes", AUTHENTICATED))
SCHEDULER: Final = UserInfo("system:kube-scheduler", (AUTHENTICATED,))
ACCOUNT: Final = UserInfo("system:serviceaccount:a:b", ("system:serviceaccounts", AUTHENTICATED))
SYSTEM_ACCOUNT: Final = UserInfo(
    "system:serviceaccount:kube-system:b", ("system:serviceaccounts", AUTHENTICATED)
)
LEASE: Final = target("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l")
PODS: Final = target("GET", "/api/v1/namespaces/a/pods")


@pytest.fixture
def control() -> FlowControl:
    control = mandatory_only()
    control.configure(LEVELS, SCHEMAS, 0.0)
    return control


# Of the suggested objects: who, what, and which schema and level.
SUGGESTED: Final = {
    "masters": (UserInfo("admin", (SYSTEM_MASTERS, AUTHENTICATED)), PODS, "exempt", "exempt"),
    "a user": (USER, PODS, "global-default", "global-default"),
    "nobody": (UserInfo("system:anonymous", (UNAUTHENTICATED,)), PODS, "global-default", "global-default"),
    "a probe": (USER, target("GET", "/readyz"), "probes", "exempt"),
    "a node": (NODE, PODS, "system-nodes", "system"),
    "a node's lease": (NODE, LEASE, "system-node-high", "node-high"),
    "the lease of the scheduler": (SCHEDULER, LEASE, "system-leader-election", "leader-election"),
    "the scheduler": (SCHEDULER, PODS, "kube-scheduler", "workload-high"),
    "a service account": (ACCOUNT, PODS, "service-accounts", "workload-low"),
    "one of kube-system": (SYSTEM_ACCOUNT, PODS, "kube-system-service-accounts", "workload-high"),
    "a user in no group": (UserInfo("x"), PODS, "catch-all", "catch-all"),
}


@pytest.mark.parametrize(("who", "what", "name", "at"), SUGGESTED.values(), ids=SUGGESTED)
def test_classification(control: FlowControl, who: UserInfo, what: Any, name: str, at: str) -> None:
    flow = control.classify(who, what)
    assert (flow.schema.name, flow.level.name) == (name, at)
    assert f"uid-of-{name}\r\n".encode() in flow.head
    assert control.classify(who, what) is flow


def test_of_equal_precedence_the_first_name_matches(control: FlowControl) -> None:
    everything = {**FLOW_SCHEMAS["global-default"], "matchingPrecedence": 50}
    control.configure(LEVELS, [*SCHEMAS, flow_schema("b", everything), flow_schema("a", everything)], 1.0)
    assert control.classify(USER, PODS).schema.name == "a"


def test_a_schema_whose_level_is_missing_matches_nothing(control: FlowControl) -> None:
    control.configure([each for each in LEVELS if each.name != "global-default"], SCHEMAS, 1.0)
    assert control.classify(USER, PODS).schema.name == "catch-all"


def test_without_objects_there_are_the_mandatory_ones() -> None:
    control = mandatory_only()
    assert control.classify(USER, PODS).level.name == "catch-all"
    assert control.levels["catch-all"].nominal == 600


def test_flows_are_remembered_with_a_bound(control: FlowControl) -> None:
    for number in range(FLOWS_MAX + 10):
        control.classify(UserInfo(f"user-{number}", (AUTHENTICATED,)), PODS)
    assert len(control._flows) <= FLOWS_MAX


def test_a_uid_cannot_break_the_head() -> None:
    control = mandatory_only()
    odd = FlowSchema.of(
        {
            "metadata": {"name": "catch-all", "uid": "x\r\nSet-Cookie: a"},
            "spec": {**MANDATORY_FLOW_SCHEMAS["catch-all"]},
        }
    )
    control.configure([], [odd], 1.0)
    assert b"Set-Cookie" not in control.classify(USER, PODS).head


# As a kube-apiserver with its defaults shows them: nominal, lower, upper.
LIMITS: Final = {
    "catch-all": (13, 13, 613),
    "exempt": (0, 0, 600),
    "global-default": (49, 24, 649),
    "leader-election": (25, 25, 625),
    "node-high": (98, 73, 698),
    "system": (74, 50, 674),
    "workload-high": (98, 49, 698),
    "workload-low": (245, 24, 845),
}


def test_the_seats_of_each_level(control: FlowControl) -> None:
    found = {each.name: (each.nominal, each.low, each.high) for each in control.levels.values()}
    assert found == LIMITS
    assert sum(each.current for each in control.levels.values()) == pytest.approx(602, abs=4)


def busy(control: FlowControl, who: UserInfo, count: int, now: float) -> list[Request]:
    flow = control.classify(who, PODS)
    requests = [Request(flow, who, PODS) for _ in range(count)]
    for each in requests:
        flow.level.queue_set.arrive(each, now)
    return requests


def test_what_others_do_not_use_is_borrowed_and_comes_back(control: FlowControl) -> None:
    default, low = control.levels["global-default"], control.levels["workload-low"]
    before = default.current
    busy(control, USER, 400, 1.0)
    for second in range(10, 70, 10):
        control.adjust(float(second))
    assert default.current > 2 * before
    assert low.current >= low.low
    busy(control, ACCOUNT, 400, 70.0)
    control.adjust(80.0)
    assert low.current >= low.nominal * 0.9
    assert default.current >= default.low


def test_what_the_exempt_level_uses_the_others_do_not_have(control: FlowControl) -> None:
    busy(control, UserInfo("admin", (SYSTEM_MASTERS,)), 590, 1.0)
    control.adjust(10.0)
    for each in control.levels.values():
        assert each.spec.is_exempt or each.current == each.low


def test_a_level_that_is_gone_ends_with_its_last_request(control: FlowControl) -> None:
    flow = control.classify(USER, PODS)
    (running,) = busy(control, USER, 1, 1.0)
    control.configure([each for each in LEVELS if each.name != "global-default"], SCHEMAS, 2.0)
    assert control.levels["global-default"].is_quiescing
    flow.level.queue_set.finish(running, 3.0)
    control.adjust(10.0)
    assert "global-default" not in control.levels
    control.configure(LEVELS, SCHEMAS, 11.0)
    assert not control.levels["global-default"].is_quiescing


def test_counts_of_schemas_that_are_gone_are_dropped(control: FlowControl) -> None:
    for number in range(20):
        everything = {**FLOW_SCHEMAS["global-default"], "matchingPrecedence": 50}
        control.configure(LEVELS, [*SCHEMAS, flow_schema(f"s-{number}", everything)], float(number))
        control.classify(USER, PODS)
    control.configure(LEVELS, SCHEMAS, 30.0)
    assert not any(each.schema.startswith("s-") for each in control.statistics)


BROKEN: Final[dict[str, Document]] = {
    "limited without limits": {"type": "Limited"},
    "the type of another name": {"type": "Exempt"},
    "queues that are not told": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue"}}},
    "a hand that is too large": {
        "type": "Limited",
        "limited": {
            "limitResponse": {"type": "Queue", "queuing": {"queues": 2, "handSize": 3, "queueLengthLimit": 1}}
        },
    },
    "negative shares": {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": -1, "limitResponse": {"type": "Reject"}},
    },
}


@pytest.mark.parametrize("spec", BROKEN.values(), ids=BROKEN)
def test_stored_levels_that_cannot_be_used(spec: Document) -> None:
    with pytest.raises(Malformed):
        level_spec("x", spec)


# Claims, and what each gets of 100.
ALLOCATIONS: Final[dict[str, tuple[list[SeatClaim], list[float]]]] = {
    "in proportion": ([SeatClaim(10, 0, 100), SeatClaim(30, 0, 100)], [25, 75]),
    "nobody wants any": ([SeatClaim(0, 0, 100), SeatClaim(0, 0, 100)], [50, 50]),
    "not below the lower bound": ([SeatClaim(90, 90, 100), SeatClaim(90, 0, 100)], [90, 10]),
    "not above the upper bound": ([SeatClaim(50, 0, 20), SeatClaim(50, 0, 100)], [20, 80]),
    "lower bounds that are too much": ([SeatClaim(80, 80, 80), SeatClaim(80, 80, 90)], [80, 80]),
    "upper bounds that are too little": ([SeatClaim(80, 0, 10), SeatClaim(80, 0, 20)], [10, 20]),
}


@pytest.mark.parametrize(("claims", "seats"), ALLOCATIONS.values(), ids=ALLOCATIONS)
def test_allocation(claims: list[SeatClaim], seats: list[float]) -> None:
    assert allocate(100, claims)[0] == pytest.approx(seats)


def test_dumps_and_metrics_tell_what_is_under_way(control: FlowControl) -> None:
    bob = UserInfo("bob\nx", (AUTHENTICATED,))
    busy(control, bob, control.levels["global-default"].current, 1.0)
    flow = control.classify(USER, PODS)
    wide = request(flow, WorkEstimate(2, 3, 0.005), USER)
    flow.level.queue_set.arrive(wide, 1.5)
    flow.level.queue_set.finish(wide, 2.0)
    rows = [line.split(",") for line in dumps.level_table(control)]
    assert {len(row) for row in rows} == {len(dumps.LEVEL_COLUMNS)}
    default = next(row for row in rows if row[0] == "global-default")
    assert int(default[4]) > 0
    assert int(default[4]) + int(default[5]) + 1 == int(default[6]) + int(default[4])
    clocks = dumps.Clocks(now=3.0, since_epoch=1_000_000_000.0)
    requests = list(dumps.request_table(control, clocks, with_details=True))
    assert "2001-09-09T01:46:38Z" in requests[1]
    assert "bob?x" in requests[1]
    assert len({line.count(",") for line in requests}) == 1
    assert sum(int(line.split(",")[2]) for line in list(dumps.queue_table(control))[1:]) == int(default[4])
    text = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for family in FlowControlMetrics(control, lambda: 3.0).families()
        for series in family.series
        for line in series.splitlines()
    }
    labels = '{flow_schema="global-default",priority_level="global-default"}'
    assert text[f"apiserver_flowcontrol_current_inqueue_requests{labels}"] == int(default[4])
    assert text[f"apiserver_flowcontrol_dispatched_requests_total{labels}"] == int(default[6])
    assert text[f"apiserver_flowcontrol_current_executing_seats{labels}"] == int(default[5]) + 3
    in_use = text[
        "apiserver_flowcontrol_priority_level_seat_utilization_count"
        '{phase="executing",priority_level="global-default"}'
    ]
    assert in_use == pytest.approx(3e9)


def test_a_level_without_queues_has_no_lengths_of_queues(control: FlowControl) -> None:
    for user in (USER, UserInfo("admin", (SYSTEM_MASTERS,))):
        busy(control, user, 3, 1.0)
    name = "apiserver_flowcontrol_request_queue_length_after_enqueue"
    families = FlowControlMetrics(control, lambda: 3.0).families()
    found = [line for family in families for series in family.series for line in series.splitlines()]
    counts = [line for line in found if line.startswith(f"{name}_count")]
    assert counts == [f'{name}_count{{flow_schema="global-default",priority_level="global-default"}} 3']
