"""Addresses that must be written in one way. Source: apimachinery, pkg/util/validation/ip.go."""

from __future__ import annotations

import ipaddress
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.catalogue.networking.canonical_addresses import canonical_cidr, canonical_ip

IPS: Final = {
    "10.9.8.7": [],
    "2001:db8::ffff": [],
    "10.9.8": ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"],
    "fe80::1%eth0": ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"],
    "010.9.8.7": ["must not have leading 0s"],
    "10.0.0.001": ["must not have leading 0s"],
    "::ffff:1.2.3.4": ["must not be an IPv4-mapped IPv6 address"],
    "2001:DB8::1": ['must be in canonical form ("2001:db8::1")'],
    "2001:db8:0::1": ['must be in canonical form ("2001:db8::1")'],
}


@pytest.mark.parametrize(("text", "problems"), IPS.items(), ids=IPS)
def test_the_name_of_an_ip_address(text: str, problems: list[str]) -> None:
    assert canonical_ip(text) == problems


CIDRS: Final = {
    "10.9.0.0/16": [],
    "2001:db8::/64": [],
    "10.9.0.0": ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"],
    "10.9.0.0/33": ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"],
    "10.9.0.0/016": ["must not have leading 0s in IP or prefix length"],
    "10.9.8.0/16": ["must not have bits set beyond the prefix length"],
    "2001:DB8::/64": ['must be in canonical form ("2001:db8::/64")'],
}


@pytest.mark.parametrize(("text", "problems"), CIDRS.items(), ids=CIDRS)
def test_the_cidr_of_a_service_cidr(text: str, problems: list[str]) -> None:
    assert canonical_cidr(text) == problems


@given(st.ip_addresses())
def test_what_is_written_by_the_library_is_canonical(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    is_mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    assert (canonical_ip(str(address)) == []) is not is_mapped
