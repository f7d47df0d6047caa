"""The ports of simulated pods."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.testkit.simulation.container_answers import addresses_of
from apiserver.testkit.simulation.field_values import InvalidStage
from apiserver.testkit.simulation.ports import HostPort, read_ports
from apiserver.testkit.simulation.stages import Stage, StageSelector
from tests.unit.testkit.simulation.pods import pod

TABLES: Final[dict[str, tuple[Any, dict[int, HostPort]]]] = {
    "in a file": ({80: "127.0.0.1:8080"}, {80: HostPort("127.0.0.1", 8080)}),
    "in JSON": ({"80": "localhost:1"}, {80: HostPort("localhost", 1)}),
    "an address of IPv6": ({1: "[::1]:65535"}, {1: HostPort("::1", 65535)}),
}


@pytest.mark.parametrize(("table", "ports"), TABLES.values(), ids=TABLES)
def test_ports(table: Any, ports: dict[int, HostPort]) -> None:
    assert read_ports(table) == ports


BAD_TABLES: Final[dict[str, tuple[Any, str]]] = {
    "no mapping": ([80], "must be a mapping"),
    "nothing": ({}, "must be a mapping"),
    "too many": (dict.fromkeys(range(1, 102), "a:1"), "must have at most 100 items"),
    "no port": ({"http": "a:1"}, "http: must be a port from 1 to 65535"),
    "port zero": ({0: "a:1"}, "0: must be a port"),
    "a large port": ({"65536": "a:1"}, "65536: must be a port"),
    "a truth value": ({True: "a:1"}, "True: must be a port"),
    "a port twice": ({80: "a:1", "80": "b:1"}, "80: must be a port from 1 to 65535, given only once"),
    "no text": ({80: 8080}, "[80]: must be an address with a port"),
    "no port of the address": ({80: "127.0.0.1"}, "[80]: must be an address with a port"),
    "no address": ({80: ":8080"}, "[80]: must be an address with a port"),
    "an address without brackets": ({80: "::1:8080"}, "[80]: must be an address with a port"),
    "a port that is none": ({80: "a:0"}, "[80]: must be an address with a port"),
    "a long name": ({80: f"{'a' * 300}:1"}, "[80]: must be an address with a port"),
}


@pytest.mark.parametrize(("table", "problem"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_bad_tables(table: Any, problem: str) -> None:
    with pytest.raises(InvalidStage) as refused:
        read_ports(table)
    assert str(refused.value).startswith(problem)


def test_the_first_stage_that_has_a_port_counts() -> None:
    a, b, c = (HostPort(name, 1) for name in "abc")
    of_others = StageSelector(containers=frozenset({"other"}))
    of_one = StageSelector(containers=frozenset({"c", "other"}))
    stages = [
        Stage(ports={3: c}, match=of_others),
        Stage(ports={1: a}, match=of_one),
        Stage(ports={1: b, 2: b}),
    ]
    assert addresses_of(pod("c"), stages) == {1: a, 2: b}
