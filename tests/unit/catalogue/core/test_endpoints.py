"""Endpoints. Source: pkg/apis/core/validation, ValidateEndpoints."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind, least

ENDPOINTS: Final = ServedKind("endpoints")
GOOD: Final = least("Endpoints", subsets=[{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}])
_IP: Final = "subsets[0].addresses[0].ip"

INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a good one": ({}, []),
    "none at all": ({"subsets": None}, []),
    "a subset has addresses": (
        {"subsets.0.addresses": None},
        ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
    ),
    "that are not ready, too": (
        {"subsets.0.addresses": None, "subsets.0.notReadyAddresses": [{"ip": "fd00::1"}]},
        [],
    ),
    "an address is one": (
        {"subsets.0.addresses.0.ip": "a"},
        [
            f'{_IP}: Invalid value: "a": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
            f'{_IP}: Invalid value: "a": must be a valid IP address',
        ],
    ),
    "and other nodes can reach it": (
        {"subsets.0.addresses.0.ip": "127.0.0.1"},
        [f'{_IP}: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'],
    ),
    "in whatever form": (
        {"subsets.0.addresses.0.ip": "::ffff:127.0.0.1"},
        [
            f'{_IP}: Invalid value: "::ffff:127.0.0.1": must not be an IPv4-mapped IPv6 address',
            (
                f'{_IP}: Invalid value: "::ffff:127.0.0.1": may not be in the loopback range (127.0.0.0/8, '
                "::1/128)"
            ),
        ],
    ),
    "not within its own link": (
        {"subsets.0.addresses.0.ip": "169.254.1.1"},
        [
            (
                f'{_IP}: Invalid value: "169.254.1.1": may not be in the link-local range '
                "(169.254.0.0/16, fe80::/10)"
            )
        ],
    ),
    "nor any": (
        {"subsets.0.addresses.0.ip": "::"},
        [f'{_IP}: Invalid value: "::": may not be unspecified (::)'],
    ),
    "several ports have names": (
        {"subsets.0.ports": [{"port": 80}, {"port": 81, "name": "b"}]},
        ["subsets[0].ports[0].name: Required value"],
    ),
    "a port is a number": (
        {"subsets.0.ports.0.port": 0},
        ["subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"],
    ),
    "protocols are in capitals": (
        {"subsets.0.ports.0.protocol": "tcp"},
        ['subsets[0].ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"'],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_endpoints(changes: Changes, texts: list[str]) -> None:
    assert ENDPOINTS.created(GOOD, changes).texts == texts


def test_the_default_protocol_is_tcp() -> None:
    document: dict[str, Any] = ENDPOINTS.created(GOOD).document
    assert document["subsets"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]


def test_unusual_addresses_are_warned_of() -> None:
    addresses = [{"ip": "10.0.0.1"}, {"ip": "FD00::1"}]
    assert ENDPOINTS.strategy.warn(least("Endpoints", subsets=[{"addresses": addresses}]), None) == [
        (
            'subsets[0].addresses[1].ip: IPv6 address "FD00::1" should be in RFC 5952 canonical format '
            '("fd00::1")'
        )
    ]
