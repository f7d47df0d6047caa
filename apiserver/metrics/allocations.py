"""The cluster IPs and node ports of Services: how many there are, and how many were given or refused.

How many there are is known of the keys of claims, of which the watch cache hears: whichever server has given
them. A repair (`controllers.service_allocations`) changes them, too.
Source: kubernetes, pkg/registry/core/service/{ipallocator,portallocator}/metrics.go.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, histogram_family, values
from apiserver.registry.allocations import AddressRange, Allocation, AllocationKey, AllocationKeys
from apiserver.vocabulary import IPNetwork

_CLUSTER_IP: Final = "clusterip"
_NODE_PORT: Final = "nodeport"
_SCOPES: Final = {True: "static", False: "dynamic"}
_CIDR: Final = ("cidr",)
# prometheus-client's, of Go and of Python. Seconds.
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
# Of a network there are at most so many addresses, as in kube-apiserver: what a signed 64-bit integer holds.
ADDRESSES_MAX: Final = 2**63 - 1


class AllocationMetrics:
    """An `AllocationObserver` of Services, and, of their claims, the `OtherKeys` of a watch cache.

    keys: tells claims. networks: returns those of which addresses are given; each has series of its own.
    node_ports: the first and the last.
    repair_failures: returns how many repairs of all that Services have were given up; set when there is one
        that repairs.
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
        self._durations: dict[str, Histogram] = {}
        self._node_port_counts: Counter[str] = Counter()
        self._node_port_errors: Counter[str] = Counter()

    # ---- what is given

    def allocated(self, allocation: Allocation, seconds: float, *, is_static: bool) -> None:
        scope = _SCOPES[is_static]
        if allocation.kind == _NODE_PORT:
            self._node_port_counts[scope] += 1
        elif cidr := self._network_of(allocation.value):
            self._ips[cidr, scope] += 1
            durations = self._durations.get(cidr)
            if durations is None:
                durations = self._durations[cidr] = Histogram(_BUCKETS)
            durations.observe(seconds)

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
        prefix = "kube_apiserver_clusterip_allocator_"
        yield values(
            f"{prefix}allocated_ips",
            "gauge",
            "Cluster IPs that Services have.",
            _CIDR,
            [((cidr,), count) for cidr, count in used.items()],
        )
        yield values(
            f"{prefix}available_ips",
            "gauge",
            "Cluster IPs that Services may still be given.",
            _CIDR,
            [((str(each),), max(0, _size(each) - used[str(each)])) for each in networks],
        )
        yield values(
            f"{prefix}allocation_total",
            "counter",
            "Cluster IPs that Services were given: those that they asked for (static), and others.",
            ("cidr", "scope"),
            list(self._ips.items()),
        )
        yield values(
            f"{prefix}allocation_errors_total",
            "counter",
            "Cluster IPs that Services could not be given.",
            ("cidr", "scope"),
            list(self._ip_errors.items()),
        )
        yield histogram_family(
            f"{prefix}allocation_duration_seconds",
            "How long it took until a Service had its cluster IP, and was stored with it.",
            _CIDR,
            [((cidr,), durations) for cidr, durations in self._durations.items()],
        )
        yield from self._node_port_families()

    def _node_port_families(self) -> Iterable[Family]:
        yield values(
            "apiserver_nodeport_repair_reconcile_errors_total",
            "counter",
            "Comparisons of all Services with the node ports and cluster IPs given to them that failed.",
            (),
            [((), self.repair_failures())],
        )
        prefix = "kube_apiserver_nodeport_allocator_"
        low, high = self._node_ports
        in_range = len(self._ports)
        yield values(
            f"{prefix}allocated_ports", "gauge", "Node ports that Services have.", (), [((), in_range)]
        )
        yield values(
            f"{prefix}available_ports",
            "gauge",
            "Node ports that Services may still be given.",
            (),
            [((), max(0, high - low + 1 - in_range))],
        )
        yield values(
            f"{prefix}allocation_total",
            "counter",
            "Node ports that Services were given: those that they asked for (static), and others.",
            ("scope",),
            [((scope,), count) for scope, count in self._node_port_counts.items()],
        )
        yield values(
            f"{prefix}allocation_errors_total",
            "counter",
            "Node ports that Services could not be given.",
            ("scope",),
            [((scope,), count) for scope, count in self._node_port_errors.items()],
        )

    def _used(self, network: IPNetwork) -> int:
        """Returns how many addresses of it Services have. Networks may overlap."""
        numbers = self._addresses[network.version]
        return bisect_right(numbers, int(network[-1])) - bisect_left(numbers, int(network[0]))

    def _forget_all_but(self, cidrs: Collection[str]) -> None:
        """Drop what was counted of networks that are gone: any number of ServiceCIDRs may come and go."""
        for counts in (self._ips, self._ip_errors):
            for key in [each for each in counts if each[0] not in cidrs]:
                del counts[key]
        for cidr in [each for each in self._durations if each not in cidrs]:
            del self._durations[cidr]

    def _network_of(self, address: str) -> str:
        """Returns the first network of which an address may be given; empty if there is none."""
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
