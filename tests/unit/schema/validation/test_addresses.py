"""Addresses and ranges: which spellings are taken. Source: apimachinery, pkg/util/validation/ip.go (1.36)."""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta.field_errors import Errors
from apiserver.schema.validation.addresses import (
    AddressChecks,
    canonical_cidr,
    canonical_ip,
    cidr_warnings,
    interface_address,
    ip_warnings,
    parse_cidr,
    parse_ip,
)

STRICT: Final = AddressChecks(is_strict=True)
OLD: Final = AddressChecks(is_strict=False)

NO_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
ZEROS: Final = "must not have leading 0s"
MAPPED: Final = "must not be an IPv4-mapped IPv6 address"


class Case(NamedTuple):
    """What is wrong with a text: with the gate, without it, and in a new field. warning: in an old field."""

    strict: str = ""
    old: str = ""
    canonical: str = ""
    warning: str = ""


def non_standard(use: str) -> str:
    return f"is invalid: use {use!r}".replace("'", '"')


IPS: Final = {
    "10.9.8.7": Case(),
    "2001:db8::ffff": Case(),
    "::": Case(),
    "": Case(NO_IP, NO_IP, NO_IP),
    "10.9.8": Case(NO_IP, NO_IP, NO_IP),
    "10.9.8.256": Case(NO_IP, NO_IP, NO_IP),
    " 10.9.8.7": Case(NO_IP, NO_IP, NO_IP),
    "10.9.8.7/24": Case(NO_IP, NO_IP, NO_IP),
    "fe80::1%eth0": Case(NO_IP, NO_IP, NO_IP),
    "0x0a.9.8.7": Case(NO_IP, NO_IP, NO_IP),
    "010.9.8.7": Case(ZEROS, "", ZEROS, non_standard("10.9.8.7")),
    "10.0.0.0000001": Case(ZEROS, "", ZEROS, non_standard("10.0.0.1")),
    "2001:db8::00001": Case(ZEROS, "", ZEROS, non_standard("2001:db8::1")),
    "::ffff:01.2.3.4": Case(ZEROS, "", ZEROS, non_standard("1.2.3.4")),
    "::ffff:1.2.3.4": Case(MAPPED, "", MAPPED, non_standard("1.2.3.4")),
    "::FFFF:102:304": Case(MAPPED, "", MAPPED, non_standard("1.2.3.4")),
    "2001:DB8::1": Case(
        canonical='must be in canonical form ("2001:db8::1")',
        warning='should be in RFC 5952 canonical format ("2001:db8::1")',
    ),
    "2001:0db8:0:0::1": Case(
        canonical='must be in canonical form ("2001:db8::1")',
        warning='should be in RFC 5952 canonical format ("2001:db8::1")',
    ),
}

NO_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
CIDR_ZEROS: Final = "must not have leading 0s in IP or prefix length"
CIDR_MAPPED: Final = "must not have an IPv4-mapped IPv6 address"
HOST_BITS: Final = "must not have bits set beyond the prefix length"

CIDRS: Final = {
    "10.9.0.0/16": Case(),
    "2001:db8::/64": Case(),
    "0.0.0.0/0": Case(),
    "": Case(NO_CIDR, NO_CIDR, NO_CIDR),
    "10.9.0.0": Case(NO_CIDR, NO_CIDR, NO_CIDR),
    "10.9.0.0/": Case(NO_CIDR, NO_CIDR, NO_CIDR),
    "10.9.0.0/33": Case(NO_CIDR, NO_CIDR, NO_CIDR),
    "10.9.0.0/-1": Case(NO_CIDR, NO_CIDR, NO_CIDR),
    "10.9.0.0/255.255.0.0": Case(NO_CIDR, NO_CIDR, NO_CIDR),
    "10.9.0.0/16/24": Case(NO_CIDR, NO_CIDR, NO_CIDR),
    "2001:db8::/129": Case(NO_CIDR, NO_CIDR, NO_CIDR),
    "fe80::%eth0/64": Case(NO_CIDR, NO_CIDR, NO_CIDR),
    "10.9.0.0/016": Case(CIDR_ZEROS, "", CIDR_ZEROS, non_standard("10.9.0.0/16")),
    "010.9.0.0/16": Case(CIDR_ZEROS, "", CIDR_ZEROS, non_standard("10.9.0.0/16")),
    "::ffff:1.2.3.0/120": Case(CIDR_MAPPED, "", CIDR_MAPPED, non_standard("1.2.3.0/24")),
    "10.9.8.0/16": Case(
        HOST_BITS, "", HOST_BITS, 'in this context (should be "10.9.0.0/16" or "10.9.8.0/32"?)'
    ),
    "2001:db8::1/64": Case(
        HOST_BITS, "", HOST_BITS, 'in this context (should be "2001:db8::/64" or "2001:db8::1/128"?)'
    ),
    "2001:DB8::/64": Case(
        canonical='must be in canonical form ("2001:db8::/64")',
        warning='should be in RFC 5952 canonical format ("2001:db8::/64")',
    ),
}


def texts(errors: Errors) -> list[str]:
    """What is wrong, without the value."""
    return [error.message.removeprefix("Invalid value: ").partition('": ')[2] for error in errors]


def expected(problem: str) -> list[str]:
    return [problem] if problem else []


@pytest.mark.parametrize(("text", "case"), IPS.items(), ids=[repr(text) for text in IPS])
def test_addresses(text: str, case: Case) -> None:
    assert texts(STRICT.ip("ip", text)) == expected(case.strict)
    assert texts(OLD.ip("ip", text)) == expected(case.old)
    assert canonical_ip(text) == expected(case.canonical)
    assert [warning.endswith(case.warning) for warning in ip_warnings("ip", text)] == [True] * bool(
        case.warning
    )


@pytest.mark.parametrize(("text", "case"), CIDRS.items(), ids=[repr(text) for text in CIDRS])
def test_ranges(text: str, case: Case) -> None:
    assert texts(STRICT.cidr("cidr", text)) == expected(case.strict)
    assert texts(OLD.cidr("cidr", text)) == expected(case.old)
    assert texts(canonical_cidr("cidr", text)) == expected(case.canonical)
    found = cidr_warnings("cidr", text)
    assert [warning.endswith(case.warning) for warning in found] == [True] * bool(case.warning)


def test_a_range_may_cause_two_warnings() -> None:
    assert cidr_warnings("p", "010.9.8.0/16") == [
        (
            'p: CIDR value "010.9.8.0/16" is ambiguous in this context '
            '(should be "10.9.0.0/16" or "10.9.8.0/32"?)'
        ),
        'p: non-standard CIDR value "010.9.8.0/16" is invalid: use "10.9.0.0/16"',
    ]


def test_what_is_stored_may_stay() -> None:
    assert STRICT.ip("ip", "010.9.8.7", ["010.9.8.7"]) == []
    assert STRICT.ip("ip", "nonsense", ["nonsense"]) == []
    assert STRICT.cidr("cidr", "10.9.8.7/16", ["10.9.8.7/16"]) == []
    assert texts(STRICT.ip("ip", "010.9.8.7", ["10.9.8.7"])) == [ZEROS]


INTERFACES: Final = {
    "10.9.8.7/24": "",
    "2001:db8::1/64": "",
    "10.9.8.7": "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
    "010.9.8.7/24": 'must be in canonical form ("10.9.8.7/24")',
    "10.9.8.7/024": 'must be in canonical form ("10.9.8.7/24")',
    "::ffff:10.9.8.7/120": 'must be in canonical form ("10.9.8.7/24")',
    "2001:DB8::1/64": 'must be in canonical form ("2001:db8::1/64")',
}


@pytest.mark.parametrize(("text", "problem"), INTERFACES.items(), ids=INTERFACES)
def test_interface_addresses(text: str, problem: str) -> None:
    assert texts(interface_address("ip", text)) == expected(problem)


@given(st.ip_addresses())
def test_what_is_written_by_the_library_is_canonical(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    is_mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    assert (canonical_ip(str(address)) == []) is not is_mapped


@given(st.text(alphabet="0123456789abcdefF.:/%x ", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for found in (parse_ip(text), parse_cidr(text)):
        assert found is None or text
