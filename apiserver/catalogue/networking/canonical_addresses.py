"""IPAddresses and ServiceCIDRs, which write an address in one way only.

Source: pkg/apis/networking/validation; apimachinery, pkg/util/validation/ip.go.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from apiserver.field_errors import invalid, required
from apiserver.golang.quoting import go_quote
from apiserver.meta import names
from apiserver.validation.checks import IMMUTABLE, Errors, at, immutable, named
from apiserver.vocabulary import Document

_LEADING_ZERO: Final = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])", re.ASCII)


def canonical_ip(text: str) -> list[str]:
    """What is wrong with an address that must be written as Kubernetes would write it."""
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
    """The same of a network, which has no bits beyond its prefix."""
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
    """The address, and whether it has leading zeros, which old versions of Go read as decimal."""
    if "%" in text or len(text) > 100:
        return None
    stripped = text if ":" in text else _LEADING_ZERO.sub("", text)
    try:
        return ipaddress.ip_address(stripped), stripped != text
    except ValueError:
        return None


# ---- IPAddress


def validate_ip_address(document: Document) -> Errors:
    parent = at(document, "spec", "parentRef")
    path = "spec.parentRef"
    if parent is None:
        return [required(path)]
    return [
        *named(f"{path}.group", parent.get("group"), names.dns_subdomain, is_required=False),
        *named(f"{path}.resource", parent.get("resource"), names.path_segment),
        *named(f"{path}.name", parent.get("name"), names.path_segment),
        *named(f"{path}.namespace", parent.get("namespace"), names.path_segment, is_required=False),
    ]


def validate_ip_address_update(new: Document, old: Document) -> Errors:
    return immutable("spec.parentRef", at(new, "spec", "parentRef"), at(old, "spec", "parentRef"))


# ---- ServiceCIDR

_CIDRS: Final = "spec.cidrs"


def validate_service_cidr(document: Document) -> Errors:
    cidrs = at(document, "spec", "cidrs") or []
    if not cidrs:
        return [required(_CIDRS, "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid(_CIDRS, {"CIDRs": cidrs}, "may only hold up to 2 values")]
    errors = [
        invalid(f"{_CIDRS}[{index}]", cidr, problem)
        for index, cidr in enumerate(cidrs)
        for problem in canonical_cidr(cidr)
    ]
    if not errors and len(cidrs) == 2 and (":" in cidrs[0]) == (":" in cidrs[1]):
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(invalid(_CIDRS, cidrs, text))
    return errors


def validate_service_cidr_update(new: Document, old: Document) -> Errors:
    """Nothing changes, but a second family may come."""
    cidrs, before = at(new, "spec", "cidrs") or [], at(old, "spec", "cidrs") or []
    is_extended = len(before) == 1 and len(cidrs) == 2
    if len(cidrs) != len(before) and not is_extended:
        return [invalid(_CIDRS, cidrs, IMMUTABLE)]
    errors = [
        invalid(f"{_CIDRS}[{index}]", cidrs[index], IMMUTABLE)
        for index, cidr in enumerate(before)
        if cidrs[index] != cidr
    ]
    return errors + (validate_service_cidr(new) if is_extended else [])
