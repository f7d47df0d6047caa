"""EndpointSlices. Source: pkg/apis/discovery/validation (release 1.34); row T07."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind

SLICE: Final = ServedKind(
    "endpointslices.discovery.k8s.io",
    {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}], "ports": [{"name": "a", "port": 80}]},
)


def test_a_port_has_a_name_and_a_protocol() -> None:
    document, errors = SLICE.create({"ports": [{"port": 1}]})
    assert errors == []
    assert document["ports"] == [{"name": "", "port": 1, "protocol": "TCP"}]


def of(kind: str, *addresses: str) -> Changes:
    return {"addressType": kind, "endpoints.0.addresses": list(addresses)}


WHERE: Final = "endpoints[0].addresses[0]: Invalid value:"
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "the addresses have a type": ({"addressType": None}, ["addressType: Required value"]),
    "the type is one of three": (
        {"addressType": "IP"},
        ['addressType: Unsupported value: "IP": supported values: "FQDN", "IPv4", "IPv6"'],
    ),
    "an endpoint has an address": (
        of("IPv4"),
        ["endpoints[0].addresses: Required value: must contain at least 1 address"],
    ),
    "an endpoint has no more addresses than a hundred": (
        of("IPv4", *["1.2.3.4"] * 101),
        ["endpoints[0].addresses: Too many: 101: must have at most 100 items"],
    ),
    "the addresses are of the type": (
        of("IPv4", "fd00::1"),
        ['endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address'],
    ),
    "an address is one": (
        of("IPv6", "fd00::x"),
        [f'{WHERE} "fd00::x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'],
    ),
    "no address is the machine's own": (
        of("IPv6", "::1"),
        [f'{WHERE} "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)'],
    ),
    "no address is of one link": (
        of("IPv4", "169.254.1.1"),
        [f'{WHERE} "169.254.1.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)'],
    ),
    "a domain has two parts": (
        of("FQDN", "host"),
        [f'{WHERE} "host": should be a domain with at least two segments separated by dots'],
    ),
    "names of ports differ": ({"ports": [{"port": 1}, {"port": 2}]}, ['ports[1].name: Duplicate value: ""']),
    "a protocol is one of three": (
        {"ports.0.protocol": "ICMP"},
        ['ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"'],
    ),
    "there are no more endpoints than a thousand": (
        {"endpoints": [{"addresses": ["1.2.3.4"]}] * 1001},
        ["endpoints: Too many: 1001: must have at most 1000 items"],
    ),
    "hints name a zone once": (
        {"endpoints.0.hints": {"forZones": [{"name": "z"}, {"name": "z"}]}},
        ['endpoints[0].hints.forZones[1].name: Duplicate value: "z"'],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_slices_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert SLICE.create(changes).texts == texts


@pytest.mark.parametrize(
    "changes",
    [of("IPv6", "fd00::1"), of("FQDN", "a.example.com."), {"endpoints": []}],
    ids=["IPv6", "FQDN", "without endpoints"],
)
def test_slices_that_are_right(changes: Changes) -> None:
    assert SLICE.create(changes).errors == []


def test_the_type_stays() -> None:
    texts = SLICE.update({"addressType": "FQDN", "endpoints": []}).texts
    assert texts == ['addressType: Invalid value: "FQDN": field is immutable']


def test_addresses_are_checked_when_endpoints_change() -> None:
    """What was stored by an older server may stay as it is, as a whole."""
    old = of("IPv4", "127.0.0.1")
    assert SLICE.update({**old, "metadata.annotations": {"a": "b"}}, old=old).texts == []
    texts = SLICE.update(of("IPv4", "127.0.0.1", "127.0.0.2"), old=old).texts
    refused = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    assert texts == [
        f'endpoints[0].addresses[0]: Invalid value: "127.0.0.1": {refused}',
        f'endpoints[0].addresses[1]: Invalid value: "127.0.0.2": {refused}',
    ]


@pytest.mark.parametrize(("kind", "address", "count"), [("FQDN", "a.example.com", 1), ("IPv4", "1.2.3.4", 0)])
def test_domain_names_are_warned_about(kind: str, address: str, count: int) -> None:
    warnings = ["spec.addressType: FQDN endpoints are deprecated"] * count
    document = SLICE.create(of(kind, address)).document
    assert SLICE.strategy.warn(document, None) == warnings


def test_labels_count_as_a_change_of_the_slice() -> None:
    """Those of the service say whose slice it is; annotations say nothing."""
    old = {"metadata.generation": 4}
    labelled = SLICE.update({"metadata.labels": {"a": "b"}}, old=old).document
    annotated = SLICE.update({"metadata.annotations": {"a": "b"}}, old=old).document
    assert (labelled["metadata"]["generation"], annotated["metadata"]["generation"]) == (5, 4)


ROWS: Final[dict[str, tuple[Changes, dict[str, Any]]]] = {
    "as it is": ({}, {"AddressType": "IPv4", "Ports": "80", "Endpoints": "1.2.3.4"}),
    "empty": ({"endpoints": [], "ports": []}, {"Ports": "<unset>", "Endpoints": "<unset>"}),
    "with much": (
        {"endpoints.0.addresses": list("12345"), "ports": [{"name": "n"}, {}]},
        {"Ports": "n,*", "Endpoints": "1,2,3 + 2 more..."},
    ),
}


@pytest.mark.parametrize(("changes", "cells"), ROWS.values(), ids=ROWS)
def test_rows(changes: Changes, cells: dict[str, Any]) -> None:
    assert cells.items() <= SLICE.cells(changes).items()


def test_t07_topology_is_not_stored_by_v1() -> None:
    """What is stored of it stays until the endpoints change."""
    topology = {"kubernetes.io/hostname": "n1"}
    sent = {"endpoints": [{"addresses": ["1.2.3.4"], "deprecatedTopology": topology}]}
    created, _ = SLICE.create(sent)
    assert created["endpoints"] == [{"addresses": ["1.2.3.4"], "conditions": {}}]
    old = {**created, "endpoints": [{**created["endpoints"][0], "deprecatedTopology": topology}]}
    labelled, _ = SLICE.updated(old, {"metadata.labels": {"a": "b"}})
    assert labelled["endpoints"][0]["deprecatedTopology"] == topology
    moved, _ = SLICE.updated(old, {"endpoints.0.addresses": ["1.2.3.5"]})
    assert "deprecatedTopology" not in moved["endpoints"][0]
