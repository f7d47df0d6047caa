"""Addresses and networks that must be written in one way. Source: apimachinery, pkg/util/validation/ip.go."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from apiserver.golang.quoting import go_quote

_LEADING_ZERO: Final = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])", re.ASCII)


def canonical_ip(text: str) -> list[str]:
    """Returns what is wrong with an address that must be written as Kubernetes would write it."""
    found = _parsed(text)
    if found is None:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    address, has_zeros = found
    if has_zeros:
        return ["must not have leading 0s"]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return ["must not be an IPv4-mapped IPv6 address"]
    if str(address) != text:
        return [f"must be in canonical form ({go_quote(str(address))})"]
    return []


def canonical_cidr(text: str) -> list[str]:
    """Returns what is wrong with a network that must be written as Kubernetes would write it.

    It may have no bits set beyond its prefix.
    """
    head, slash, length = text.rpartition("/")
    found = _parsed(head)
    if not slash or found is None or not (length.isascii() and length.isdigit()):
        return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    address, has_zeros = found
    digits = length.lstrip("0") or "0"
    if len(digits) > 3 or int(digits) > address.max_prefixlen:
        return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    problems = []
    if has_zeros or digits != length:
        problems.append("must not have leading 0s in IP or prefix length")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        problems.append("must not have an IPv4-mapped IPv6 address")
    network = ipaddress.ip_network((address, int(digits)), strict=False)
    if network.network_address != address:
        problems.append("must not have bits set beyond the prefix length")
    if not problems and str(network) != text:
        problems.append(f"must be in canonical form ({go_quote(str(network))})")
    return problems


def _parsed(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, bool] | None:
    """Returns the address, and whether it has leading zeros, which old versions of Go read as decimal."""
    if "%" in text or len(text) > 100:
        return None
    stripped = text if ":" in text else _LEADING_ZERO.sub("", text)
    try:
        return ipaddress.ip_address(stripped), stripped != text
    except ValueError:
        return None
