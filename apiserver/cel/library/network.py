"""The library of IP addresses and CIDR ranges: `ip('::1')`, `cidr('10.0.0.0/8')`.

Source: k8s.io/apiserver pkg/cel/library/ip.go and cidr.go; texts of errors: Go's net/netip.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from apiserver.cel import types
from apiserver.cel.declarations import Library, named_types
from apiserver.cel.functions import ONE, STRING_FACTOR, Argument, Bounds, CallEstimate, Overload, method
from apiserver.cel.library.shared_costs import actual_size, of_text
from apiserver.cel.types import BOOL, INT, STRING, Type
from apiserver.cel.values import EvaluationError
from apiserver.golang.addresses import V4_BITS, V6_BITS, InvalidAddress, parse_address, parse_prefix
from apiserver.golang.quoting import go_quote
from apiserver.meta.text_caches import text_cache

IP: Final = types.opaque("net.IP")
CIDR: Final = types.opaque("net.CIDR")

_V4_MAPPED: Final = 0xFFFF  # what comes before the 32 bits of an IPv4 address in an IPv6 one


@dataclass(frozen=True, slots=True)
class Ip:
    cel_type: ClassVar[Type] = IP
    number: int
    bits: int

    @property
    def size(self) -> int:
        """The size of the address, in bytes."""
        return self.bits // 8

    def __str__(self) -> str:
        if self.bits == V4_BITS:
            return str(ipaddress.IPv4Address(self.number))
        return str(ipaddress.IPv6Address(self.number))

    def starts(self, bits: int) -> int:
        """Returns the given number of leading bits of the address."""
        return self.number >> (self.bits - bits)


@dataclass(frozen=True, slots=True)
class Cidr:
    cel_type: ClassVar[Type] = CIDR
    ip: Ip
    prefix: int

    @property
    def size(self) -> int:
        return math.ceil(self.prefix / 8)

    def __str__(self) -> str:
        return f"{self.ip}/{self.prefix}"

    def contains(self, ip: Ip) -> bool:
        return self.ip.bits == ip.bits and self.ip.starts(self.prefix) == ip.starts(self.prefix)

    def masked(self) -> Cidr:
        rest = self.ip.bits - self.prefix
        return Cidr(Ip(self.ip.number >> rest << rest, self.ip.bits), self.prefix)


def _is_mapped(ip: Ip) -> bool:
    return ip.bits == V6_BITS and ip.number >> V4_BITS == _V4_MAPPED


@text_cache(1_024)
def _ip(text: str) -> Ip:
    try:
        address = parse_address(text)
    except InvalidAddress as invalid:
        raise EvaluationError(
            f"IP Address {go_quote(text)} parse error during conversion from string: {invalid}"
        ) from None
    if address.zone:
        raise EvaluationError(f"IP address {go_quote(text)} with zone value is not allowed")
    ip = Ip(address.number, address.bits)
    if _is_mapped(ip):
        raise EvaluationError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return ip


@text_cache(1_024)
def _cidr(text: str) -> Cidr:
    what = "network address parse error during conversion from string: "
    try:
        address, length = parse_prefix(text)
    except InvalidAddress as invalid:
        # The prefix is repeated, as in Kubernetes.
        raise EvaluationError(f"{what}{what}{invalid}") from None
    cidr = Cidr(Ip(address.number, address.bits), length)
    if _is_mapped(cidr.ip):
        raise EvaluationError(f"{what}IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return cidr


def _is(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except EvaluationError:
            return False
        return True

    return check


# ---- kinds of addresses


def _is_loopback(ip: Ip) -> bool:
    return ip.number >> 24 == 127 if ip.bits == V4_BITS else ip.number == 1


def _is_multicast(ip: Ip) -> bool:
    return ip.starts(4) == 0xE if ip.bits == V4_BITS else ip.starts(8) == 0xFF


def _is_link_local_multicast(ip: Ip) -> bool:
    if ip.bits == V4_BITS:
        return ip.starts(24) == 0xE00000
    return ip.starts(16) & 0xFF0F == 0xFF02


def _is_link_local_unicast(ip: Ip) -> bool:
    return ip.starts(16) == 0xA9FE if ip.bits == V4_BITS else ip.starts(10) == 0xFE80 >> 6


def _is_global_unicast(ip: Ip) -> bool:
    """Whether an address is global unicast; as in Go, private addresses are."""
    is_broadcast = ip.bits == V4_BITS and ip.number == 0xFFFFFFFF
    others = (_is_loopback, _is_multicast, _is_link_local_unicast)
    return not is_broadcast and ip.number != 0 and not any(is_other(ip) for is_other in others)


# ---- ranges


def _contains_cidr(cidr: Cidr, other: Cidr) -> bool:
    return cidr.prefix <= other.prefix and cidr.contains(other.ip)


# ---- declarations

_BYTES: Final = Bounds(4, 16)


def _containment(id_: str, other: Type, call: Callable[[Any, Any], bool], *, of_range: bool) -> Overload:
    is_text = other is STRING

    def call_cost(args: Sequence[Any], result: Any) -> int:
        size = actual_size(args[0])
        cost = math.ceil((size + size) * STRING_FACTOR)
        if of_range:
            cost += math.ceil(size * STRING_FACTOR) + 1
        return cost + math.ceil(actual_size(args[1]) * STRING_FACTOR) if is_text else cost

    def estimate(args: Sequence[Argument]) -> CallEstimate:
        cost = _BYTES.plus(_BYTES).scaled(STRING_FACTOR)
        if of_range:
            cost = cost.plus(_BYTES.scaled(STRING_FACTOR)).plus(ONE)
        return CallEstimate(cost.plus(args[1].size.scaled(STRING_FACTOR)) if is_text else cost)

    return Overload(id_, (CIDR, other), BOOL, call, call_cost, estimate, is_method=True)


IPS: Final = Library(
    "kubernetes.net.ip",
    {
        "ip": (Overload("string_to_ip", (STRING,), IP, _ip, call_cost=of_text()),),
        "isIP": (Overload("is_ip", (STRING,), BOOL, _is(_ip), call_cost=of_text()),),
        "ip.isCanonical": (
            # It is read, then compared. Its estimate is 1, since Kubernetes' expects a receiver.
            Overload(
                "ip_is_canonical", (STRING,), BOOL, lambda text: str(_ip(text)) == text, call_cost=of_text(2)
            ),
        ),
        "family": method("ip_family", (IP,), INT, lambda ip: 4 if ip.bits == V4_BITS else 6),
        "isUnspecified": method("ip_is_unspecified", (IP,), BOOL, lambda ip: ip.number == 0),
        "isLoopback": method("ip_is_loopback", (IP,), BOOL, _is_loopback),
        "isLinkLocalMulticast": method("ip_is_link_local_multicast", (IP,), BOOL, _is_link_local_multicast),
        "isLinkLocalUnicast": method("ip_is_link_local_unicast", (IP,), BOOL, _is_link_local_unicast),
        "isGlobalUnicast": method("ip_is_global_unicast", (IP,), BOOL, _is_global_unicast),
        "string": (Overload("ip_to_string", (IP,), STRING, str),),
    },
    constants=named_types(IP),
    since=(1, 30),
)
CIDRS: Final = Library(
    "net.cidr",
    {
        "cidr": (Overload("string_to_cidr", (STRING,), CIDR, _cidr, call_cost=of_text()),),
        "isCIDR": (Overload("is_cidr", (STRING,), BOOL, _is(_cidr), call_cost=of_text()),),
        "containsIP": (
            _containment(
                "cidr_contains_ip_string", STRING, lambda cidr, ip: cidr.contains(_ip(ip)), of_range=False
            ),
            _containment("cidr_contains_ip_ip", IP, Cidr.contains, of_range=False),
        ),
        "containsCIDR": (
            _containment(
                "cidr_contains_cidr_string",
                STRING,
                lambda cidr, other: _contains_cidr(cidr, _cidr(other)),
                of_range=True,
            ),
            _containment("cidr_contains_cidr", CIDR, _contains_cidr, of_range=True),
        ),
        "ip": method("cidr_ip", (CIDR,), IP, lambda cidr: cidr.ip),
        "prefixLength": method("cidr_prefix_length", (CIDR,), INT, lambda cidr: cidr.prefix),
        "masked": method("cidr_masked", (CIDR,), CIDR, Cidr.masked),
        "string": (Overload("cidr_to_string", (CIDR,), STRING, str),),
    },
    constants=named_types(CIDR),
    since=(1, 30),
)
