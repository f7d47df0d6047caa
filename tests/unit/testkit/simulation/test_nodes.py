"""The objects of simulated nodes."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.meta.conditions import is_condition_true
from apiserver.testkit.simulation.nodes import (
    NODES_MAX,
    host_ip,
    is_simulated,
    new_lease,
    new_node,
    node_names,
    number_of,
    place_of,
    pod_network,
    ready_status,
)
from tests.unit.testkit.simulation.pods import NOW_S

NUMBERS: Final = {
    "simulated-0": 0,
    "simulated-999": 999,
    "simulated-01": None,
    "simulated-": None,
    "simulated--1": None,
    "simulated-12345": None,
    "simulated-\u0661": None,
    "node-1": None,
}


@pytest.mark.parametrize(("name", "number"), NUMBERS.items(), ids=NUMBERS)
def test_numbers(name: str, number: int | None) -> None:
    assert number_of(name) == number


def test_no_two_nodes_share_addresses() -> None:
    places = [place_of(name) for name in node_names(NODES_MAX)]
    assert len(set(places)) == len({host_ip(place) for place in places}) == NODES_MAX
    networks = [pod_network(place) for place in (*places, place_of("gpu"))]
    assert len(set(networks)) == NODES_MAX + 1


def test_a_node_becomes_ready_and_stays_as_it_is() -> None:
    node = new_node("simulated-3")
    assert is_simulated(node)
    node["status"] = ready_status(node, "v1.36.0", NOW_S)
    assert is_condition_true(node, "Ready")
    assert node["status"]["allocatable"] == node["status"]["capacity"]
    assert node["spec"]["podCIDR"] == "10.128.3.0/24"
    assert ready_status(node, "v1.36.0", NOW_S + 3600) == node["status"]


def test_what_others_say_of_a_node_is_kept() -> None:
    node = new_node("gpu")
    problem = {"type": "example.com/KernelDeadlock", "status": "False"}
    capacity = {"cpu": "1", "example.com/gpu": "2"}
    node["status"] = {"capacity": capacity, "conditions": [problem, {"type": "Ready", "status": "Unknown"}]}
    status = ready_status(node, "v1.36.0", NOW_S)
    assert (status["capacity"], status["allocatable"]) == (capacity, capacity)
    assert problem in status["conditions"]
    assert is_condition_true({"status": status}, "Ready")


def test_a_lease_belongs_to_its_node() -> None:
    node = {"metadata": {"name": "simulated-0", "uid": "u"}}
    lease = new_lease(node, "2020-01-01T00:00:00.000000Z")
    assert lease["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert lease["spec"] == {
        "holderIdentity": "simulated-0",
        "leaseDurationSeconds": 40,
        "renewTime": "2020-01-01T00:00:00.000000Z",
    }
