"""From where Services get addresses in the cluster and ports of nodes."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from apiserver.catalogue.core.services.preparation import (
    IP_OUT_OF_RANGE,
    IP_TAKEN,
    PORT_TAKEN,
    Allocation,
    AllocationRequest,
    allocation_requests,
    assign,
    claims,
    port_out_of_range,
    refused,
)
from apiserver.field_errors import FieldError, invalid, too_many
from apiserver.registry import allocations as registry_claims
from apiserver.registry.allocations import ALLOCATIONS_MAX, Taken
from apiserver.vocabulary import Document

IPNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# How often something is tried at random before the pool is gone through in order.
RANDOM_ATTEMPTS_MAX: Final = 64
# Of a network so many addresses are gone through at most; a larger one is never that full.
SEARCHED_MAX: Final = 1 << 16


@dataclass(frozen=True)
class ServiceAllocator:
    """The `Allocator` of Services.

    networks: by family, `IPv4` or `IPv6`. node_ports: the first and the last.
    randint: a random number between two, both included.
    """

    networks: Mapping[str, IPNetwork]
    node_ports: tuple[int, int]
    randint: Callable[[int, int], int]

    def claims(self, document: Document) -> Sequence[Allocation]:
        return claims(document)

    def allocation_requests(self, document: Document, *, is_new: bool) -> Sequence[AllocationRequest]:
        return allocation_requests(document, is_new=is_new)

    def assign(self, document: Document, want: AllocationRequest, value: str) -> None:
        assign(document, want, value)

    def choose(self, want: AllocationRequest, taken: Container[Taken]) -> registry_claims.Allocation | None:
        """As kube-apiserver does, from the upper part of the range first: people ask for low numbers."""
        first, last = self._bounds(want)
        upper = first + _static_band_size(last - first + 1)
        for number in itertools.chain(self._candidates(upper, last), self._candidates(first, upper - 1)):
            value = self._text(want, number)
            if Taken(want.kind, value) not in taken:
                return Allocation(want.kind, value, "")
        return None

    def not_to_be_had(self, document: Document, claim: registry_claims.Allocation) -> FieldError | None:
        asked = cast(Allocation, claim)
        if asked.kind == "nodeport":
            low, high = self.node_ports
            in_range = low <= int(asked.value) <= high
            return None if in_range else refused(document, asked, port_out_of_range(low, high))
        address = ipaddress.ip_address(asked.value)
        network = self.networks.get(f"IPv{address.version}")
        if network is not None and int(network[0]) < int(address) < int(network[-1]):
            return None
        return refused(document, asked, IP_OUT_OF_RANGE)

    def is_taken(self, document: Document, claim: registry_claims.Allocation) -> FieldError:
        asked = cast(Allocation, claim)
        return refused(document, asked, PORT_TAKEN if asked.kind == "nodeport" else IP_TAKEN)

    def exhausted(self, want: AllocationRequest) -> FieldError:
        if want.kind == "clusterip":
            return invalid("spec.clusterIPs", [], "failed to allocate a serviceIP: range is full")
        return invalid("spec.ports", 0, "failed to allocate a nodePort: range is full")

    def too_many(self, document: Document) -> FieldError:
        return too_many("spec.ports", len(claims(document)), ALLOCATIONS_MAX)

    def _candidates(self, low: int, high: int) -> Iterator[int]:
        """Numbers between two, both included: some at random, then all, up to SEARCHED_MAX of them."""
        if low <= high:
            for _ in range(RANDOM_ATTEMPTS_MAX):
                yield self.randint(low, high)
            yield from range(low, min(high + 1, low + SEARCHED_MAX))

    def _bounds(self, want: AllocationRequest) -> tuple[int, int]:
        """The first and the last number; of a network neither its own address nor the last one."""
        if want.kind == "nodeport":
            return self.node_ports
        network = self.networks.get(want.family)
        return (int(network[0]) + 1, int(network[-1]) - 1) if network is not None else (1, 0)

    def _text(self, want: AllocationRequest, number: int) -> str:
        return str(number) if want.kind == "nodeport" else str(ipaddress.ip_address(number))


def _static_band_size(size: int) -> int:
    """How many of a range are chosen last. Source: KEP-3070, KEP-3668."""
    return min(max(16, size // 16), 256) if size > 16 else 0


def service_allocator(
    networks: Iterable[IPNetwork], node_ports: tuple[int, int], randint: Callable[[int, int], int]
) -> ServiceAllocator:
    """networks: one of each family at most; the first is of the family that Services have by default."""
    return ServiceAllocator({f"IPv{network.version}": network for network in networks}, node_ports, randint)
