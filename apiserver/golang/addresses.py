"""Parses IP addresses and prefixes as Go's package net/netip does, with its errors."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from apiserver.golang.quoting import go_quote

V4_BITS: Final = 32
V6_BITS: Final = 128

_MARK: Final = re.compile("[.:%]")  # the first of them determines the kind of address
_GROUP: Final = re.compile("[0-9a-fA-F]*")
_BITS: Final = re.compile("[1-9][0-9]*|[0-9]")
_BITS_LENGTH_MAX: Final = 18  # the digits that Go parses


class InvalidAddress(Exception):
    """A text that is not a valid address or prefix. The message is Go's."""


class Address(NamedTuple):
    """An IP address. bits: V4_BITS or V6_BITS. zone: that of an IPv6 address, or empty."""

    number: int
    bits: int
    zone: str = ""


class _Invalid(Exception):
    """An invalid part of a text. at: the rest of the text from there on, or empty."""

    def __init__(self, message: str, at: str = "") -> None:
        super().__init__(message)
        self.at = at


def parse_address(text: str) -> Address:
    """Parse an address. Raises InvalidAddress."""
    try:
        return _address(text)
    except _Invalid as invalid:
        at = f" (at {go_quote(invalid.at)})" if invalid.at else ""
        raise InvalidAddress(f"ParseAddr({go_quote(text)}): {invalid}{at}") from None


def parse_prefix(text: str) -> tuple[Address, int]:
    """Parse a prefix: an address with any bits set, and a length. Raises InvalidAddress."""
    try:
        return _prefix(text)
    except (_Invalid, InvalidAddress) as invalid:
        raise InvalidAddress(f"netip.ParsePrefix({go_quote(text)}): {invalid}") from None


def _address(text: str) -> Address:
    match _MARK.search(text):
        case None:
            raise _Invalid("unable to parse IP")
        case mark if mark.group() == ".":
            return Address(_v4(text), V4_BITS)
        case mark if mark.group() == "%":
            raise _Invalid("missing IPv6 address")
    without, has_zone, zone = text.partition("%")
    if has_zone and not zone:
        raise _Invalid("zone must be a non-empty string")
    return Address(_v6(without), V6_BITS, zone)


def _prefix(text: str) -> tuple[Address, int]:
    before, slash, bits = text.rpartition("/")
    if not slash:
        raise _Invalid("no '/'")
    address = parse_address(before)
    if address.zone:
        raise _Invalid("IPv6 zones cannot be present in a prefix")
    if not _BITS.fullmatch(bits) or len(bits) > _BITS_LENGTH_MAX:
        raise _Invalid(f"bad bits after slash: {go_quote(bits)}")
    if int(bits) > address.bits:
        raise _Invalid("prefix length out of range")
    return address, int(bits)


def _v4(text: str) -> int:
    number = at = 0
    fields = text.split(".", 5)
    for index, field in enumerate(fields):
        is_last = index == len(fields) - 1
        if index == 4 and not (is_last and not field):
            raise _Invalid("IPv4 address too long")
        for place, digit in enumerate(field):
            if not "0" <= digit <= "9":
                raise _Invalid("unexpected character", text[at + place :])
            if place == 1 and field[0] == "0":
                raise _Invalid("IPv4 field has octet with leading zero")
            if int(field[: place + 1]) > 255:
                raise _Invalid("IPv4 field has value >255")
        if not field:
            raise _Invalid("IPv4 field must have at least one digit", text[at - is_last :])
        number = number << 8 | int(field)
        at += len(field) + 1
    if len(fields) < 4:
        raise _Invalid("IPv4 address too short")
    return number


def _v6(text: str) -> int:
    rest = text
    groups: list[int] = []
    gap = None  # the number of groups before `::`
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
        if not rest:
            return 0
    while len(groups) < 8:
        match = _GROUP.match(rest)
        assert match is not None
        digits = match.group()
        if len(digits) > 4:
            raise _Invalid("each group must have 4 or fewer digits", rest)
        if not digits:
            raise _Invalid("each colon-separated field must have at least one digit", rest)
        after = rest[len(digits) :]
        if after.startswith("."):
            if gap is None and len(groups) != 6:
                raise _Invalid("embedded IPv4 address must replace the final 2 fields of the address", rest)
            if len(groups) > 6:
                raise _Invalid("too many hex fields to fit an embedded IPv4 at the end of the address", rest)
            embedded = _v4(rest)
            groups += [embedded >> 16, embedded & 0xFFFF]
            rest = ""
            break
        groups.append(int(digits, 16))
        rest = after
        if not rest:
            break
        if not rest.startswith(":"):
            raise _Invalid("unexpected character, want colon", rest)
        if rest == ":":
            raise _Invalid("colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest.startswith(":"):
            if gap is not None:
                raise _Invalid("multiple :: in address", rest)
            gap, rest = len(groups), rest[1:]
            if not rest:
                break
    if rest:
        raise _Invalid("trailing garbage after address", rest)
    missing = 8 - len(groups)
    if missing and gap is None:
        raise _Invalid("address string too short")
    if gap is not None:
        if not missing:
            raise _Invalid("the :: must expand to at least one field of zeros")
        groups[gap:gap] = [0] * missing
    number = 0
    for group in groups:
        number = number << 16 | group
    return number
