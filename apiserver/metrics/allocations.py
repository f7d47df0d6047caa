"""Counts of cluster IPs and node ports of Services: allocated ones, and allocations granted and refused.

Allocated ones are counted from the keys of claims in the watch cache, which include those of other servers. A
repair (`apiserver.controllers.service_allocations`) changes them, too.
Source: kubernetes, pkg/registry/core/service/{ipallocator,portallocator}/metrics.go.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from apiserver.meta.vocabulary import IPNetwork
from apiserver.metrics.histograms import Histograms
from apiserver.metrics.series import Family, family, single
from apiserver.registry.allocations import AddressRange, Allocation, AllocationKey, AllocationKeys

_CLUSTER_IP: Final = "clusterip"
_NODE_PORT: Final = "nodeport"
_SCOPES: Final = {True: "static", False: "dynamic"}
_DURATIONS: Final = "kube_apiserver_clusterip_allocator_allocation_duration_seconds"
# Of a network there are at most so many addresses, as in kube-apiserver: what a signed 64-bit integer holds.
ADDRESSES_MAX: Final = 2**63 - 1


class AllocationMetrics:
    """Counts allocations of Services, as their `AllocationObserver`; their claims come as `NonObjectKeys`.

    keys: recognizes claims. networks: returns the networks from which addresses are allocated; each has its
        own series.
    node_ports: the first and the last.
    repair_failures: returns the number of failed repairs of all allocations; set if this server repairs.
    """

    def __init__(
        self, keys: AllocationKeys, networks: Callable[[], Sequence[IPNetwork]], node_ports: tuple[int, int]
    ) -> None:
        self._keys, self._networks, self._node_ports = keys, networks, node_ports
        self.repair_failures: Callable[[], int] = lambda: 0
        # By version, in order: how many there are of a network is the distance between two of them.
        self._addresses: dict[int, list[int]] = {4: [], 6: []}
        self._ports: set[str] = set()
        # By network and scope; by scope.
        self._ips: Counter[tuple[str, str]] = Counter()
        self._ip_errors: Counter[tuple[str, str]] = Counter()
        self._durations = Histograms[str](_DURATIONS)
        self._node_port_counts: Counter[str] = Counter()
        self._node_port_errors: Counter[str] = Counter()

    # ---- what is given

    def allocated(self, allocation: Allocation, seconds: float, *, is_static: bool) -> None:
        scope = _SCOPES[is_static]
        if allocation.kind == _NODE_PORT:
            self._node_port_counts[scope] += 1
        elif cidr := self._network_of(allocation.value):
            self._ips[cidr, scope] += 1
            self._durations[cidr].observe(seconds)

    def failed(self, allocation: Allocation, *, is_static: bool) -> None:
        scope = _SCOPES[is_static]
        if allocation.kind == _NODE_PORT:
            self._node_port_errors[scope] += 1
        elif cidr := self._network_of(allocation.value):
            # As in kube-apiserver, an address that is of no network is no error of any.
            self._ip_errors[cidr, scope] += 1

    # ---- what there is

    def clear(self) -> None:
        for numbers in self._addresses.values():
            numbers.clear()
        self._ports.clear()

    def keys(self) -> Sequence[str]:
        claims = [(_CLUSTER_IP, str(ipaddress.IPv4Address(each))) for each in self._addresses[4]]
        claims += [(_CLUSTER_IP, str(ipaddress.IPv6Address(each))) for each in self._addresses[6]]
        claims += [(_NODE_PORT, each) for each in self._ports]
        return [self._keys.claim(AllocationKey(*each)) for each in claims]

    def put(self, key: str) -> None:
        if not key.startswith(self._keys.claims):
            return
        kind, value = self._keys.allocation(key)
        if kind == _NODE_PORT:
            self._ports.add(value)
        elif kind == _CLUSTER_IP and (address := _parsed(value)) is not None:
            numbers, number = self._addresses[address.version], int(address)
            place = bisect_left(numbers, number)
            if numbers[place : place + 1] != [number]:
                numbers.insert(place, number)

    def delete(self, key: str) -> None:
        if not key.startswith(self._keys.claims):
            return
        kind, value = self._keys.allocation(key)
        if kind == _NODE_PORT:
            self._ports.discard(value)
        elif kind == _CLUSTER_IP and (address := _parsed(value)) is not None:
            numbers, number = self._addresses[address.version], int(address)
            place = bisect_left(numbers, number)
            if numbers[place : place + 1] == [number]:
                del numbers[place]

    # ---- exposition

    def families(self) -> Iterable[Family]:
        networks = self._networks()
        used = {str(each): self._used(each) for each in networks}
        self._forget_all_but(used)
        available = [(str(each), max(0, _size(each) - used[str(each)])) for each in networks]
        for name, by_network in (
            ("kube_apiserver_clusterip_allocator_allocated_ips", used.items()),
            ("kube_apiserver_clusterip_allocator_available_ips", available),
        ):
            yield family(name, [((cidr,), count) for cidr, count in by_network])
        yield family("kube_apiserver_clusterip_allocator_allocation_total", list(self._ips.items()))
        yield family(
            "kube_apiserver_clusterip_allocator_allocation_errors_total", list(self._ip_errors.items())
        )
        yield family(_DURATIONS, [((cidr,), each) for cidr, each in self._durations.items()])
        yield single("apiserver_nodeport_repair_reconcile_errors_total", self.repair_failures())
        low, high = self._node_ports
        in_range = len(self._ports)
        yield single("kube_apiserver_nodeport_allocator_allocated_ports", in_range)
        yield single("kube_apiserver_nodeport_allocator_available_ports", max(0, high - low + 1 - in_range))
        for name, by_scope in (
            ("kube_apiserver_nodeport_allocator_allocation_total", self._node_port_counts),
            ("kube_apiserver_nodeport_allocator_allocation_errors_total", self._node_port_errors),
        ):
            yield family(name, [((scope,), count) for scope, count in by_scope.items()])

    def _used(self, network: IPNetwork) -> int:
        """Returns the number of a network's addresses that Services use. Networks may overlap."""
        numbers = self._addresses[network.version]
        return bisect_right(numbers, int(network[-1])) - bisect_left(numbers, int(network[0]))

    def _forget_all_but(self, cidrs: Collection[str]) -> None:
        """Drop the counts of networks that are gone: any number of ServiceCIDRs may come and go."""
        for counts in (self._ips, self._ip_errors):
            for key in [each for each in counts if each[0] not in cidrs]:
                del counts[key]
        for cidr in [each for each in self._durations if each not in cidrs]:
            del self._durations[cidr]

    def _network_of(self, address: str) -> str:
        """Returns the first network that contains an address; empty if there is none."""
        ip = _parsed(address)
        return next(
            (
                str(each)
                for each in self._networks()
                if ip is not None and ip.version == each.version and AddressRange.of(each).has(ip)
            ),
            "",
        )


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None  # The store was mended by hand.


def _size(network: IPNetwork) -> int:
    return min(AddressRange.of(network).size, ADDRESSES_MAX)
