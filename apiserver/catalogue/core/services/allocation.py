"""The cluster IPs and node ports of Services: those in use, those needed, and the choice of new ones.

Pure: `registry.allocations` knows the free ones. It calls a ServiceAllocator for the allocations of a Service
and its open requests, and to write chosen values into it. Source: pkg/registry/core/service/storage,
alloc.go.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final, Literal, NamedTuple, TypeAlias

from apiserver.catalogue.core.services.addresses import (
    HEADLESS,
    allocates_node_ports,
    cluster_ips,
    needs_cluster_ip,
    needs_health_check_node_port,
    needs_node_ports,
    normalized_ip,
)
from apiserver.meta.brand import Brand
from apiserver.meta.field_errors import FieldError, invalid, too_many
from apiserver.meta.vocabulary import Document, GroupResource, IPNetwork
from apiserver.registry.allocations import (
    ALLOCATIONS_MAX,
    AddressRange,
    Allocation,
    AllocationKey,
    AllocationRecord,
)
from apiserver.registry.patch.apply.managed_fields import UPDATE
from apiserver.registry.write_request import KUBE_APISERVER

AllocationKind: TypeAlias = Literal["clusterip", "nodeport"]
IP_TAKEN: Final = "provided IP is already allocated"
IP_OUT_OF_RANGE: Final = "the provided network does not match the current range"
PORT_TAKEN: Final = "provided port is already allocated"


def port_out_of_range(low: int, high: int) -> str:
    return f"provided port is not in the valid range. The range of valid ports is {low}-{high}"


class AllocationRequest(NamedTuple):
    """A request for a cluster IP or a node port.

    family: `IPv4` or `IPv6` for an address. places: the places that `assign` writes: indexes of
        `spec.clusterIPs` or of `spec.ports`; none for the port of the health check.
    """

    kind: AllocationKind
    family: str
    places: tuple[int, ...]


def _allocations(spec: Document) -> Iterator[Allocation]:
    if needs_cluster_ip(spec):
        for ip in cluster_ips(spec):
            if ip not in ("", HEADLESS):
                yield Allocation("clusterip", normalized_ip(ip), "spec.clusterIPs")
    if needs_node_ports(spec):
        for index, port in enumerate(spec.get("ports") or ()):
            if number := port.get("nodePort"):
                yield Allocation("nodeport", str(number), f"spec.ports[{index}].nodePort")
    if needs_health_check_node_port(spec) and (number := spec.get("healthCheckNodePort")):
        yield Allocation("nodeport", str(number), "spec.healthCheckNodePort")


def refusal(document: Document, allocation: Allocation, reason: str) -> FieldError:
    """Returns the error about a requested address or port that is not available.

    reason: IP_TAKEN, IP_OUT_OF_RANGE, PORT_TAKEN or the text of port_out_of_range.
    """
    if allocation.kind == "clusterip":
        ips = cluster_ips(document["spec"])
        return invalid(allocation.field, ips, f"failed to allocate IP {allocation.value}: {reason}")
    return invalid(allocation.field, int(allocation.value), reason)


# ---- the allocator

# How often a number is tried at random before the range is searched in order.
RANDOM_ATTEMPTS_MAX: Final = 64
# How many addresses of a network are searched at most; a larger network is never that full.
SEARCHED_MAX: Final = 1 << 16


def _band_size(count: int, *, step: int, most: int) -> int:
    """Returns the size of the band at the start of a range of `count` numbers, which is chosen last.

    It is one in `step`, at least 16 and at most `most`; a range of up to 16 numbers has no band. Source:
    calculateRangeOffset in pkg/registry/core/service, of ipallocator/bitmap.go (KEP-3070) and
    portallocator/allocator.go (KEP-3668).
    """
    return min(max(_BAND_MIN, count // step), most) if count > _BAND_MIN else 0


_BAND_MIN: Final = 16
_address_band_size = partial(_band_size, step=16, most=256)
_port_band_size = partial(_band_size, step=32, most=128)


class AdditionalNetworks:
    """Networks in addition to those of the command line, set by the controller of ServiceCIDRs.

    networks: by family, `IPv4` or `IPv6`; replaced as a whole.
    """

    def __init__(self) -> None:
        self.networks: Mapping[str, Sequence[IPNetwork]] = {}


@dataclass(frozen=True, eq=False, repr=False)
class ServiceAllocator:
    """The `Allocator` of Services; see there for what each method returns.

    networks: by family, `IPv4` or `IPv6`. node_ports: the first and the last.
    randint: returns a random number between two, both included.
    address_version: the version of IPAddresses that managedFields show.
    further: networks that were added after the start.
    """

    networks: Mapping[str, IPNetwork]
    node_ports: tuple[int, int]
    randint: Callable[[int, int], int]
    brand: Brand = field(default_factory=Brand)
    address_version: str = "v1"
    further: AdditionalNetworks = field(default_factory=AdditionalNetworks)

    @classmethod
    def for_networks(
        cls,
        networks: Iterable[IPNetwork],
        node_ports: tuple[int, int],
        randint: Callable[[int, int], int],
        brand: Brand | None = None,
        address_version: str = "v1",
    ) -> ServiceAllocator:
        """Returns an allocator of addresses in some networks, and of node ports.

        networks: one of each family at most; the family of the first is the default of Services.
        """
        by_family = {f"IPv{network.version}": network for network in networks}
        return cls(by_family, node_ports, randint, brand or Brand(), address_version)

    def allocations(self, document: Document) -> tuple[Allocation, ...]:
        """Returns the allocations of the service, each once, with the first field that has it.

        As in Kubernetes, a node port belongs to one service for all protocols.
        """
        spec = document.get("spec") or {}
        found: dict[tuple[str, str], Allocation] = {}
        for allocation in _allocations(spec):
            found.setdefault((allocation.kind, allocation.value), allocation)
        return tuple(found.values())

    def record(self, document: Document, allocation: Allocation) -> AllocationRecord | None:
        """Returns the record of an address; node ports have none. Source: ipallocator, newIPAddress."""
        if allocation.kind != "clusterip":
            return None
        meta, vendor = document["metadata"], self.brand.vendor
        group = self.brand.group("networking")
        labels = {
            f"ipaddress.{vendor}.io/ip-family": f"IPv{ipaddress.ip_address(allocation.value).version}",
            f"ipaddress.{vendor}.io/managed-by": f"ipallocator.{self.brand.group_domain}",
        }
        # The group, which is the core group, has no name: an empty one would not be shown either.
        parent = {"resource": "services", "namespace": meta.get("namespace", ""), "name": meta["name"]}
        address = {
            "apiVersion": f"{group}/v1",
            "kind": "IPAddress",
            "metadata": {"name": allocation.value, "labels": labels},
            "spec": {"parentRef": parent},
        }
        return AllocationRecord(GroupResource(group, "ipaddresses"), address, self._address_owner)

    @cached_property
    def _address_owner(self) -> Document:
        """The entry of managedFields of all IPAddresses, which kube-apiserver creates with its own client.

        Their fields are always the same, so that writes need not compute them.
        """
        prefix = f"f:ipaddress.{self.brand.vendor}.io"
        labels: Document = {".": {}, f"{prefix}/ip-family": {}, f"{prefix}/managed-by": {}}
        parent: Document = {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}
        return {
            "manager": KUBE_APISERVER.manager,
            "operation": UPDATE,
            "apiVersion": f"{self.brand.group('networking')}/{self.address_version}",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": labels}, "f:spec": {"f:parentRef": parent}},
        }

    def requests(self, document: Document, *, is_new: bool) -> tuple[AllocationRequest, ...]:
        """Returns the open requests of the service, whose IP families are already set.

        is_new: whether the service is new: its ports with the same number, as of DNS over TCP and UDP, share
            a node port.
        """
        spec = document.get("spec") or {}
        found: list[AllocationRequest] = []
        ips = cluster_ips(spec)
        if needs_cluster_ip(spec) and ips[:1] != [HEADLESS]:
            missing = (spec.get("ipFamilies") or ())[len(ips) :]
            found += [AllocationRequest("clusterip", each, (i,)) for i, each in enumerate(missing, len(ips))]
        if allocates_node_ports(spec):
            together: dict[int, list[int]] = {}
            for index, port in enumerate(spec.get("ports") or ()):
                if not port.get("nodePort"):
                    together.setdefault(port.get("port", 0) if is_new else index, []).append(index)
            found += [AllocationRequest("nodeport", "", tuple(indexes)) for indexes in together.values()]
        if needs_health_check_node_port(spec) and not spec.get("healthCheckNodePort"):
            found.append(AllocationRequest("nodeport", "", ()))
        return tuple(found)

    def assign(self, document: Document, request: AllocationRequest, value: str) -> None:
        """Writes a chosen address or port into the service. Addresses come in the order of `requests`."""
        spec = document["spec"]
        if request.kind == "clusterip":
            spec["clusterIPs"] = [*cluster_ips(spec), value]
            spec["clusterIP"] = spec["clusterIPs"][0]
        elif not request.places:
            spec["healthCheckNodePort"] = int(value)
        for index in request.places if request.kind == "nodeport" else ():
            spec["ports"][index]["nodePort"] = int(value)

    def choose(self, request: AllocationRequest, taken: Container[AllocationKey]) -> Allocation | None:
        """Yields candidates, first from the upper band, as kube-apiserver: users prefer low numbers for
        explicit requests.
        """
        for first, upper, last in self._ranges(request):
            for number in itertools.chain(self._candidates(upper, last), self._candidates(first, upper - 1)):
                value = self._text(request, number)
                if AllocationKey(request.kind, value) not in taken:
                    return Allocation(request.kind, value, "")
        return None

    def refusal(self, document: Document, allocation: Allocation) -> FieldError | None:
        if allocation.kind == "nodeport":
            low, high = self.node_ports
            in_range = low <= int(allocation.value) <= high
            return None if in_range else refusal(document, allocation, port_out_of_range(low, high))
        address = ipaddress.ip_address(allocation.value)
        networks = self._networks_of(f"IPv{address.version}")
        if any(AddressRange.of(network).has(address) for network in networks):
            return None
        return refusal(document, allocation, IP_OUT_OF_RANGE)

    def conflict(self, document: Document, allocation: Allocation) -> FieldError:
        return refusal(document, allocation, PORT_TAKEN if allocation.kind == "nodeport" else IP_TAKEN)

    def exhausted(self, request: AllocationRequest) -> FieldError:
        if request.kind == "clusterip":
            return invalid("spec.clusterIPs", [], "failed to allocate a serviceIP: range is full")
        return invalid("spec.ports", 0, "failed to allocate a nodePort: range is full")

    def too_many(self, document: Document) -> FieldError:
        return too_many("spec.ports", len(self.allocations(document)), ALLOCATIONS_MAX)

    def _candidates(self, low: int, high: int) -> Iterator[int]:
        """Yields numbers between two, both included: some at random, then all, up to SEARCHED_MAX of them."""
        if low <= high:
            for _ in range(RANDOM_ATTEMPTS_MAX):
                yield self.randint(low, high)
            yield from range(low, min(high + 1, low + SEARCHED_MAX))

    def _ranges(self, request: AllocationRequest) -> Iterator[tuple[int, int, int]]:
        """Yields ranges of numbers: the first, the first of the upper band, and the last."""
        if request.kind == "nodeport":
            low, high = self.node_ports
            yield low, low + _port_band_size(high - low + 1), high
            return
        for network in self._networks_of(request.family):
            first, last = AddressRange.of(network)
            # Of all addresses of the network, as in Kubernetes, and not of those that may be given.
            yield first, first + _address_band_size(network.num_addresses), last

    def all_networks(self) -> Sequence[IPNetwork]:
        """Returns the networks from which addresses may be allocated, each once: ServiceCIDRs repeat the
        first.
        """
        return list(dict.fromkeys(each for family in ("IPv4", "IPv6") for each in self._networks_of(family)))

    def _networks_of(self, family: str) -> Iterator[IPNetwork]:
        if (own := self.networks.get(family)) is not None:
            yield own
        yield from self.further.networks.get(family, ())

    def _text(self, request: AllocationRequest, number: int) -> str:
        return str(number) if request.kind == "nodeport" else str(ipaddress.ip_address(number))
