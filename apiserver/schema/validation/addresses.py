"""Checks of IP addresses and ranges, and warnings about unusual spellings of them.

Fields that are older than these rules accept more spellings than new ones (`AddressChecks`): addresses in
non-canonical form, and without the gate StrictIPCIDRValidation also leading zeros, IPv4-mapped IPv6
addresses, and ranges with bits beyond their prefix.

Source: k8s.io/apimachinery, pkg/util/validation/ip.go; k8s.io/utils, net (ParseIPSloppy, ParseCIDRSloppy).
"""

from __future__ import annotations

import re
from collections.abc import Container
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple, TypeAlias

from apiserver.golang.quoting import go_quote
from apiserver.meta.field_errors import Errors, invalid
from apiserver.meta.text_caches import text_cache

# The gate on which the strictness of `AddressChecks` depends.
STRICT_ADDRESSES: Final = "StrictIPCIDRValidation"

_Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network

# Services and EndpointSlices of a namespace name the same addresses again and again.
_CACHED_MAX: Final = 4_096
# No address is longer, but for zeros in front of its numbers; a range has a slash and three digits more.
_LENGTH_MAX: Final = 256
_SUPERFLUOUS_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9a-fA-F])")
_IPV4_BITS: Final = 32
_MAPPED_BITS: Final = 96  # the prefix of IPv4-mapped addresses

_NO_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_NO_INTERFACE: Final = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"


class WrittenIp(NamedTuple):
    """An IP address as it was written.

    address: an IPv4-mapped one as IPv4. has_zeros: whether a number has leading zeros, which current parsers
    refuse.
    """

    address: _Address
    is_mapped: bool
    has_zeros: bool

    @property
    def family(self) -> str:
        return f"IPv{self.address.version}"


class WrittenCidr(NamedTuple):
    """An IP range as it was written: an address, and the length of the prefix.

    network: without the bits beyond the prefix, an IPv4-mapped one as IPv4. length: as it was written: of 128
    bits if the address is mapped. has_zeros: whether the address or the length has leading zeros.
    """

    ip: WrittenIp
    network: _Network
    length: int
    has_zeros: bool

    @property
    def has_host_bits(self) -> bool:
        return self.ip.address != self.network.network_address


@text_cache(_CACHED_MAX)
def parse_ip(text: str) -> WrittenIp | None:
    """Returns the address in a text; None if not even old parsers accept it."""
    if "%" in text or len(text) > _LENGTH_MAX:
        return None
    has_zeros = False
    try:
        address = ip_address(text)
    except ValueError:
        has_zeros = True
        try:
            address = ip_address(_SUPERFLUOUS_ZEROS.sub("", text))
        except ValueError:
            return None
    if isinstance(address, IPv6Address) and (mapped := address.ipv4_mapped) is not None:
        return WrittenIp(mapped, True, has_zeros)
    return WrittenIp(address, False, has_zeros)


@text_cache(_CACHED_MAX)
def parse_cidr(text: str) -> WrittenCidr | None:
    """Returns the range in a text, which may have bits beyond the prefix; None if it is not a range."""
    head, slash, digits = text.partition("/")
    if not slash or (ip := parse_ip(head)) is None or not (digits.isascii() and digits.isdigit()):
        return None
    short = digits.lstrip("0") or "0"
    if len(short) > 3 or (length := int(short)) > (128 if ip.is_mapped else ip.address.max_prefixlen):
        return None
    network: _Network
    if not ip.is_mapped:
        network = ip_network((ip.address, length), strict=False)
    elif length >= _MAPPED_BITS:
        network = ip_network((ip.address, length - _MAPPED_BITS), strict=False)
    else:
        network = ip_network((IPv6Address(f"::ffff:{ip.address}"), length), strict=False)
    return WrittenCidr(ip, network, length, ip.has_zeros or short != digits)


# ---- checks


class AddressChecks(NamedTuple):
    """The checks of fields that are older than the current rules. is_strict: the state of the gate."""

    is_strict: bool = True

    def ip(self, path: str, value: str | None, old: Container[str] = ()) -> Errors:
        """Checks an IP address. old: the stored addresses, which remain valid.

        Source: IsValidIPForLegacyField.
        """
        value = value or ""
        if value in old:
            return []
        problem = _ip_problem(parse_ip(value), is_strict=self.is_strict)
        return [invalid(path, value, problem)] if problem else []

    def cidr(self, path: str, value: str | None, old: Container[str] = ()) -> Errors:
        """Checks a CIDR. old: the stored ranges, which remain valid.

        Source: IsValidCIDRForLegacyField.
        """
        value = value or ""
        if value in old:
            return []
        problem = _cidr_problem(parse_cidr(value), is_strict=self.is_strict)
        return [invalid(path, value, problem)] if problem else []


def canonical_ip(text: str) -> list[str]:
    """Returns the errors about an address in a field with the current rules. Source: IsValidIP."""
    found = parse_ip(text)
    if problem := _ip_problem(found, is_strict=True):
        return [problem]
    return _unless_canonical(text, str(found.address) if found else "")


def canonical_cidr(path: str, text: str) -> Errors:
    """Returns the errors about a range in a field with the current rules. Source: IsValidCIDR."""
    found = parse_cidr(text)
    if problem := _cidr_problem(found, is_strict=True):
        return [invalid(path, text, problem)]
    problems = _unless_canonical(text, str(found.network) if found else "")
    return [invalid(path, text, each) for each in problems]


def interface_address(path: str, text: str) -> Errors:
    """Checks the address of a network interface, and the length of its prefix: `10.9.8.7/24`.

    Source: IsValidInterfaceAddress.
    """
    found = parse_cidr(text)
    if found is None:
        return [invalid(path, text, _NO_INTERFACE)]
    length, is_mapped = found.length, found.ip.is_mapped
    if is_mapped and length > _IPV4_BITS:
        length -= _MAPPED_BITS
    return [invalid(path, text, each) for each in _unless_canonical(text, f"{found.ip.address}/{length}")]


def _ip_problem(found: WrittenIp | None, *, is_strict: bool) -> str:
    if found is None:
        return _NO_IP
    if is_strict and found.has_zeros:
        return "must not have leading 0s"
    if is_strict and found.is_mapped:
        return "must not be an IPv4-mapped IPv6 address"
    return ""


def _cidr_problem(found: WrittenCidr | None, *, is_strict: bool) -> str:
    if found is None:
        return _NO_CIDR
    if not is_strict:
        return ""
    if found.has_zeros:
        return "must not have leading 0s in IP or prefix length"
    if found.ip.is_mapped:
        return "must not have an IPv4-mapped IPv6 address"
    return "must not have bits set beyond the prefix length" if found.has_host_bits else ""


def _unless_canonical(text: str, canonical: str) -> list[str]:
    return [] if text == canonical else [f"must be in canonical form ({go_quote(canonical)})"]


# ---- warnings


def ip_warnings(path: str, text: str) -> list[str]:
    """Returns warnings about an address that `AddressChecks.ip` has checked. Source: GetWarningsForIP."""
    found = parse_ip(text)
    if found is None:
        return []
    if found.has_zeros or found.is_mapped:
        use = f"use {go_quote(str(found.address))}"
        return [f"{path}: non-standard IP address {go_quote(text)} is invalid: {use}"]
    if found.address.version == 6 and str(found.address) != text:
        canonical = f"RFC 5952 canonical format ({go_quote(str(found.address))})"
        return [f"{path}: IPv6 address {go_quote(text)} should be in {canonical}"]
    return []


def cidr_warnings(path: str, text: str) -> list[str]:
    """Returns warnings about a range that `AddressChecks.cidr` has checked. Source: GetWarningsForCIDR."""
    found = parse_cidr(text)
    if found is None:
        return []
    network, quoted = go_quote(str(found.network)), go_quote(text)
    warnings = []
    if found.has_host_bits:
        bits = 128 if found.ip.is_mapped else found.ip.address.max_prefixlen
        single = go_quote(f"{found.ip.address}/{bits}")
        choice = f"(should be {network} or {single}?)"
        warnings.append(f"{path}: CIDR value {quoted} is ambiguous in this context {choice}")
    if found.has_zeros or found.ip.is_mapped:
        warnings.append(f"{path}: non-standard CIDR value {quoted} is invalid: use {network}")
    if not warnings and found.ip.address.version == 6 and str(found.network) != text:
        canonical = f"RFC 5952 canonical format ({network})"
        warnings.append(f"{path}: IPv6 CIDR value {quoted} should be in {canonical}")
    return warnings
