"""Who gets a slot when others have taken them. Row Q05."""

from __future__ import annotations

import math
from typing import Final

import pytest

from apiserver.endpoints.request_info import parse_target
from apiserver.endpoints.request_slots import LEASE_SLOTS, SCRAPES_MAX, Slot, SlotLimit, SlotLimits
from apiserver.meta.errors import TooManyRequests
from apiserver.meta.vocabulary import SYSTEM_MASTERS, RequestInfo, UserInfo
from apiserver.metrics.requests import InFlight, RequestCount

SLOTS_MAX: Final = 10
GREEDY: Final = UserInfo("greedy")
BOB: Final = UserInfo("bob")
ADMIN: Final = UserInfo("admin", (SYSTEM_MASTERS,))
SCHEDULER: Final = UserInfo("system:kube-scheduler")
NODE: Final = UserInfo("system:node:n", ("system:nodes",))
OPERATOR: Final = UserInfo("system:serviceaccount:kube-system:o", ("system:serviceaccounts:kube-system",))
PODS: Final = parse_target("POST", "/api/v1/namespaces/default/pods", False)
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE: Final = parse_target("PUT", f"{LEASES}/a", False)
OTHER_LEASE: Final = parse_target("PUT", "/apis/example.com/v1/namespaces/kube-system/leases/a", False)


def limit(slots_max: int = SLOTS_MAX) -> SlotLimit:
    return SlotLimit(slots_max, RequestCount(), lease_group="coordination.k8s.io")


def taken(limit: SlotLimit, user: UserInfo, info: RequestInfo = PODS) -> Slot | None:
    slot = Slot(limit, user, info)
    try:
        slot.take()
    except TooManyRequests:
        slot.release()
        return None
    return slot


def take_all(limit: SlotLimit) -> list[Slot]:
    """As many slots as a crowd of users gets."""
    slots = (taken(limit, UserInfo(f"greedy-{number}")) for number in range(SLOTS_MAX + 1))
    return [slot for slot in slots if slot is not None]


def test_a_user_leaves_some_to_others() -> None:
    slots = limit()
    greedy = [slot for _ in range(SLOTS_MAX) if (slot := taken(slots, GREEDY)) is not None]
    assert len(greedy) == SLOTS_MAX * 4 // 5
    assert taken(slots, BOB) is not None
    greedy[0].release()
    assert taken(slots, BOB) is not None


BEYOND: Final = {
    "an ordinary write": (BOB, PODS, False),
    "an ordinary user's lease": (BOB, LEASE, False),
    "a member of system:masters": (ADMIN, PODS, True),
    "a component's lease": (SCHEDULER, LEASE, True),
    "a component's other write": (SCHEDULER, PODS, False),
    "a node's lease": (NODE, LEASE, True),
    "the lease of a service account of kube-system": (OPERATOR, LEASE, True),
    "what only has the name of a lease": (SCHEDULER, OTHER_LEASE, False),
}


@pytest.mark.parametrize(("user", "info", "gets_one"), BEYOND.values(), ids=BEYOND)
def test_who_gets_a_slot_when_all_are_taken(user: UserInfo, info: RequestInfo, gets_one: bool) -> None:
    slots = limit()
    assert len(take_all(slots)) == SLOTS_MAX
    assert (taken(slots, user, info) is not None) is gets_one


def test_the_reserve_for_leases_has_an_end_for_each_component() -> None:
    slots = limit()
    take_all(slots)
    node = [taken(slots, NODE, LEASE) for _ in range(LEASE_SLOTS)]
    assert None in node
    assert taken(slots, SCHEDULER, LEASE) is not None


def test_no_limit() -> None:
    slots = limit(0)
    assert all(taken(slots, BOB) for _ in range(1000))


def test_a_slot_is_given_back_once() -> None:
    slots = limit(1)
    first = taken(slots, BOB)
    assert first is not None
    first.take()  # It has one.
    first.release()
    first.release()
    assert slots.in_flight.value == 0
    assert taken(slots, BOB) is not None
    assert taken(slots, BOB) is None
    assert slots.in_flight.value == 1


def test_a_request_that_waits_for_its_body_is_in_flight_without_a_slot() -> None:
    slots = limit(1)
    waiting = Slot(slots, BOB, PODS)
    assert slots.in_flight.value == 1
    assert taken(slots, GREEDY) is not None
    with pytest.raises(TooManyRequests):
        waiting.take()
    waiting.release()


PATHS: Final = {
    "/livez": math.inf,
    "/readyz/": math.inf,
    "/healthz/ping": math.inf,
    "/version": math.inf,
    "/metrics": SCRAPES_MAX,
    "/openapi/v2": SLOTS_MAX,
    "/livezz": SLOTS_MAX,
    "/": SLOTS_MAX,
}


@pytest.mark.parametrize(("path", "slots_max"), PATHS.items(), ids=PATHS)
def test_slots_of_paths(path: str, slots_max: float) -> None:
    """Probes and scrapes take no slots of others, nor others theirs."""
    limits = SlotLimits(InFlight(), read_only_max=SLOTS_MAX, mutating_max=SLOTS_MAX, lease_group="")
    users = [UserInfo(f"user-{number}") for number in range(100)]
    granted = [user for user in users if taken(limits.of_path(path), user) is not None]
    assert len(granted) == min(slots_max, len(users))
