"""How many cluster IPs and node ports there are, and how many were given or refused."""

from __future__ import annotations

import ipaddress
from typing import Final

import pytest

from apiserver.meta.vocabulary import IPNetwork
from apiserver.metrics.allocations import ADDRESSES_MAX, AllocationMetrics
from apiserver.registry.allocations import Allocation, AllocationKeys

KEYS: Final = AllocationKeys("/registry")
V4: Final = ipaddress.ip_network("10.0.0.0/24")
V6: Final = ipaddress.ip_network("fd00::/64")
LATER: Final = ipaddress.ip_network("10.0.1.0/28")
IPS: Final = "kube_apiserver_clusterip_allocator_"
PORTS: Final = "kube_apiserver_nodeport_allocator_"


def ip(value: str) -> Allocation:
    return Allocation("clusterip", value, "")


def port(value: str) -> Allocation:
    return Allocation("nodeport", value, "")


def lines(metrics: AllocationMetrics) -> set[str]:
    return {line.rstrip("\n") for family in metrics.families() for line in family.series}


def test_what_there_is_follows_the_claims() -> None:
    networks: list[IPNetwork] = [V4, V6]
    metrics = AllocationMetrics(KEYS, lambda: networks, (30_000, 30_009))
    claims = [ip("10.0.0.1"), ip("10.0.0.2"), ip("fd00::1"), ip("10.0.1.3"), port("30001"), port("30002")]
    for each in (*claims, *claims):
        metrics.put(KEYS.claim(each))
    metrics.put("/registry/core/services/a/b")
    metrics.delete(KEYS.claim(ip("10.0.0.9")))
    metrics.delete(KEYS.claim(ip("10.0.0.2")))
    metrics.delete(KEYS.claim(port("30002")))
    assert lines(metrics) >= {
        f'{IPS}allocated_ips{{cidr="10.0.0.0/24"}} 1',
        f'{IPS}available_ips{{cidr="10.0.0.0/24"}} 253',
        f'{IPS}allocated_ips{{cidr="fd00::/64"}} 1',
        f'{IPS}available_ips{{cidr="fd00::/64"}} {ADDRESSES_MAX - 1}',
        f"{PORTS}allocated_ports 1",
        f"{PORTS}available_ports 9",
    }
    other = AllocationMetrics(KEYS, lambda: networks, (30_000, 30_009))
    for key in metrics.keys():  # noqa: SIM118  no mapping
        other.put(key)
    assert lines(other) == lines(metrics)
    networks.append(LATER)
    assert f'{IPS}allocated_ips{{cidr="10.0.1.0/28"}} 1' in lines(metrics)
    metrics.clear()
    assert f'{IPS}allocated_ips{{cidr="10.0.0.0/24"}} 0' in lines(metrics)


def test_what_is_given_and_refused_is_counted() -> None:
    metrics = AllocationMetrics(KEYS, lambda: [V4], (30_000, 30_009))
    metrics.allocated(ip("10.0.0.1"), 0.02, is_static=True)
    metrics.allocated(ip("10.0.0.2"), 0.02, is_static=False)
    metrics.failed(ip("10.0.0.1"), is_static=True)
    metrics.failed(ip("10.0.0.1"), is_static=True)
    for of_no_network in ("192.168.0.1", "10.0.0.0", "10.0.0.255", "fd00::1", "no address"):
        metrics.failed(ip(of_no_network), is_static=True)
    metrics.allocated(port("30001"), 0.02, is_static=False)
    metrics.failed(port("30001"), is_static=True)
    cidr = 'cidr="10.0.0.0/24"'
    text = "\n".join(lines(metrics)).splitlines()
    assert set(text) >= {
        f'{IPS}allocation_total{{{cidr},scope="static"}} 1',
        f'{IPS}allocation_total{{{cidr},scope="dynamic"}} 1',
        f'{IPS}allocation_errors_total{{{cidr},scope="static"}} 2',
        f"{IPS}allocation_duration_seconds_count{{{cidr}}} 2",
        f'{PORTS}allocation_total{{scope="dynamic"}} 1',
        f'{PORTS}allocation_errors_total{{scope="static"}} 1',
    }


# Networks, and how many addresses of each Services may have.
SIZES: Final = {
    "10.0.0.0/8": 2**24 - 2,
    "10.0.0.0/24": 254,
    "10.0.0.0/30": 2,
    "10.0.0.0/31": 0,
    "10.0.0.0/32": 0,
    "fd00::/64": ADDRESSES_MAX,
    "fd00::/65": ADDRESSES_MAX,
    "fd00::/66": 2**62 - 1,
    "fd00::/112": 65_535,
    "fd00::/126": 3,
    "fd00::/127": 1,
    "fd00::/128": 0,
}


@pytest.mark.parametrize(("cidr", "size"), SIZES.items(), ids=SIZES)
def test_a_network_has_addresses(cidr: str, size: int) -> None:
    """Source: pkg/registry/core/service/ipallocator, hostsPerNetwork and Free."""
    network = ipaddress.ip_network(cidr)
    metrics = AllocationMetrics(KEYS, lambda: [network], (30_000, 30_009))
    assert f'{IPS}available_ips{{cidr="{cidr}"}} {size}' in lines(metrics)


def test_networks_that_overlap_have_the_same_addresses_each() -> None:
    """Source: pkg/registry/core/service/ipallocator, Used."""
    wide, narrow = (ipaddress.ip_network(each) for each in ("10.0.0.0/24", "10.0.0.16/28"))
    metrics = AllocationMetrics(KEYS, lambda: [wide, narrow], (30_000, 30_009))
    for value in ("10.0.0.15", "10.0.0.16", "10.0.0.31", "10.0.0.32", "no address"):
        metrics.put(KEYS.claim(ip(value)))
    assert lines(metrics) >= {
        f'{IPS}allocated_ips{{cidr="10.0.0.0/24"}} 4',
        f'{IPS}allocated_ips{{cidr="10.0.0.16/28"}} 2',
    }


def test_what_was_counted_of_a_network_goes_with_it() -> None:
    networks: list[IPNetwork] = [V4, LATER]
    metrics = AllocationMetrics(KEYS, lambda: networks, (30_000, 30_009))
    for value in ("10.0.0.1", "10.0.1.1"):
        metrics.allocated(ip(value), 0.02, is_static=True)
        metrics.failed(ip(value), is_static=True)
    networks.remove(LATER)
    assert not any("10.0.1.0/28" in line for line in lines(metrics))
    networks.append(LATER)
    counted = {line.partition("{")[0] for line in lines(metrics) if str(LATER) in line}
    assert counted == {f"{IPS}allocated_ips", f"{IPS}available_ips"}
