"""What drivers say in the status of a claim of its devices.

Source: pkg/apis/resource/validation, validateDeviceStatus; KEP-4817 (release 1.36).
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.schema.validation.addresses import interface_address
from tests.unit.catalogue.served_kinds import ServedKind

REQUEST: Final = {"name": "r", "exactly": {"deviceClassName": "c"}}
CLAIM: Final = ServedKind("resourceclaims.resource.k8s.io", {"spec": {"devices": {"requests": [REQUEST]}}})
ID: Final = {"driver": "d.example.com", "pool": "p", "device": "dev"}
RESULT: Final = {**ID, "request": "r"}
SHARE: Final = "6e1f3f0c-0b8f-4b0e-9b62-0c86a36f8a31"
NOW: Final = "2024-05-01T00:00:00Z"
WHERE: Final = "status.devices[0]"


def status(*devices: dict[str, Any], results: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "allocation": {"devices": {"results": [RESULT] if results is None else results}},
        "devices": list(devices),
    }


def condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}


_NO_DEVICE: Final = "must be an allocated device in the claim"
DEVICES: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "one that it has": (ID, []),
    "all that can be said": (
        {
            **ID,
            "conditions": [condition("Ready")],
            "data": {"a": {"b": 1}},
            "networkData": {
                "interfaceName": "eth0",
                "ips": ["10.9.8.7/24", "2001:db8::1/64"],
                "hardwareAddress": "ea:9f:cb:40:b4:7b",
            },
        },
        [],
    ),
    "one that it has not": (
        {**ID, "device": "other"},
        [
            (
                f'{WHERE}: Invalid value: {{"Driver":"d.example.com","Pool":"p","Device":"other",'
                f'"ShareID":""}}: {_NO_DEVICE}'
            )
        ],
    ),
    "a share that it has not": (
        {**ID, "shareID": SHARE},
        [
            (
                f'{WHERE}: Invalid value: {{"Driver":"d.example.com","Pool":"p","Device":"dev",'
                f'"ShareID":"{SHARE}"}}: {_NO_DEVICE}'
            )
        ],
    ),
    "more conditions than eight": (
        {**ID, "conditions": [condition(f"C{i}") for i in range(9)]},
        [f"{WHERE}.conditions: Too many: 9: must have at most 8 items"],
    ),
    "a condition twice": (
        {**ID, "conditions": [condition("Ready")] * 2},
        [f'{WHERE}.conditions[1].type: Duplicate value: "Ready"'],
    ),
    "much data": (
        {**ID, "data": {"a": "x" * 10_240}},
        [f"{WHERE}.data: Too long: may not be more than 10240 bytes"],
    ),
    "long names of an interface": (
        {**ID, "networkData": {"interfaceName": "x" * 257, "hardwareAddress": "x" * 129}},
        [
            f"{WHERE}.networkData.interfaceName: Too long: may not be more than 256 bytes",
            f"{WHERE}.networkData.hardwareAddress: Too long: may not be more than 128 bytes",
        ],
    ),
    "addresses that are wrong": (
        {**ID, "networkData": {"ips": ["10.9.8.7", "10.9.8.07/24", "10.9.8.7/24", "10.9.8.7/24"]}},
        [
            (
                f'{WHERE}.networkData.ips[0]: Invalid value: "10.9.8.7": must be a valid address in '
                "CIDR form, "
                "(e.g. 10.9.8.7/24 or 2001:db8::1/64)"
            ),
            (
                f'{WHERE}.networkData.ips[1]: Invalid value: "10.9.8.07/24": must be in canonical form '
                '("10.9.8.7/24")'
            ),
            f'{WHERE}.networkData.ips[3]: Duplicate value: "10.9.8.7/24"',
        ],
    ),
    "more addresses than 16": (
        {**ID, "networkData": {"ips": [f"10.9.8.{i}/24" for i in range(17)]}},
        [f"{WHERE}.networkData.ips: Too many: 17: must have at most 16 items"],
    ),
}


@pytest.mark.parametrize(("device", "texts"), DEVICES.values(), ids=DEVICES)
def test_what_is_said_of_a_device(device: dict[str, Any], texts: list[str]) -> None:
    assert CLAIM.update({"status": status(device)}, "status").texts == texts


# Addresses of interfaces, and their canonical form; empty if it is none.
ADDRESSES: Final = {
    "10.9.8.7/24": "10.9.8.7/24",
    "0.0.0.0/0": "0.0.0.0/0",
    "010.009.0.7/024": "10.9.0.7/24",
    "2001:db8::1/64": "2001:db8::1/64",
    "2001:DB8:0:0::1/064": "2001:db8::1/64",
    "::ffff:10.9.8.7/120": "10.9.8.7/24",
    "10.9.8.7/33": "",
    "2001:db8::1/129": "",
    "10.9.8.7/": "",
    "10.9.8.7/-1": "",
    "10.9.8.7/24/24": "",
    "fe80::1%eth0/64": "",
    "/24": "",
    "": "",
}


@pytest.mark.parametrize(("address", "canonical"), ADDRESSES.items(), ids=ADDRESSES)
def test_addresses_of_interfaces(address: str, canonical: str) -> None:
    """Source: k8s.io/apimachinery, pkg/util/validation/ip.go, IsValidInterfaceAddress."""
    problem = (
        f'must be in canonical form ("{canonical}")'
        if canonical
        else "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
    )
    texts = [f'ip: Invalid value: "{address}": {problem}'] if address != canonical or not address else []
    assert list(map(str, interface_address("ip", address))) == texts


def test_what_is_said_of_a_device_is_said_once() -> None:
    (text,) = CLAIM.update({"status": status(ID, ID)}, "status").texts
    assert text.startswith('status.devices[1]: Duplicate value: {"Driver":"d.example.com"')


def test_nothing_is_said_of_a_claim_without_devices() -> None:
    (text,) = CLAIM.update({"status": {"devices": [ID]}}, "status").texts
    assert text.endswith(_NO_DEVICE)


def test_shares_of_a_device_differ() -> None:
    other = SHARE.replace("6", "7")
    results = [{**RESULT, "shareID": SHARE}, {**RESULT, "shareID": other}]
    both = [{**ID, "shareID": SHARE}, {**ID, "shareID": other}]
    assert CLAIM.update({"status": status(*both, results=results)}, "status").texts == []


_LOWER_CASE: Final = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
    "hexadecimal characters"
)
SHARES: Final = {
    "right": (SHARE, ""),
    "short": ("abc", "error validating uid: invalid UUID length: 3"),
    "empty": ("", "error validating uid: invalid UUID length: 0"),
    "no number": ("x" * 36, "error validating uid: invalid UUID format"),
    "no number without hyphens": ("x" * 32, "error validating uid: invalid UUID format"),
    "in upper case": (SHARE.upper(), _LOWER_CASE),
    "without hyphens": (SHARE.replace("-", ""), _LOWER_CASE),
    "in braces": (f"{{{SHARE}}}", _LOWER_CASE),
    "in brackets": (f"[{SHARE}]", "error validating uid: invalid bracketed UUID format"),
    "a URN": (f"urn:uuid:{SHARE}", _LOWER_CASE),
    "another URN": (f"urn:oops:{SHARE}", 'error validating uid: invalid urn prefix: "urn:oops:"'),
}


@pytest.mark.parametrize(("share", "problem"), SHARES.values(), ids=SHARES)
def test_ids_of_shares(share: str, problem: str) -> None:
    results = [{**RESULT, "shareID": share}]
    found = CLAIM.update({"status": {"allocation": {"devices": {"results": results}}}}, "status").texts
    where = "status.allocation.devices.results[0].shareID"
    assert found == ([f'{where}: Invalid value: "{share}": {problem}'] if problem else [])


RESULTS: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "conditions of one kind": (
        {"bindingConditions": ["a"]},
        [
            (
                ".bindingFailureConditions: Invalid value: null: bindingFailureConditions are required "
                "to use "
                "bindingConditions"
            )
        ],
    ),
    "a toleration of another effect": (
        {"tolerations": [{"operator": "Exists", "effect": "Other"}]},
        [
            (
                '.tolerations[0].effect: Unsupported value: "Other": supported values: "NoExecute", '
                '"NoSchedule", "None"'
            )
        ],
    ),
    "what it takes of a capacity": ({"consumedCapacity": {"ram": "1Gi"}}, []),
}


@pytest.mark.parametrize(("more", "texts"), RESULTS.values(), ids=RESULTS)
def test_what_else_is_allocated(more: dict[str, Any], texts: list[str]) -> None:
    found = CLAIM.update({"status": status(results=[{**RESULT, **more}])}, "status").texts
    assert found == [f"status.allocation.devices.results[0]{text}" for text in texts]


@pytest.mark.parametrize("rest", [[], ["e"]], ids=["all", "one of two"])
def test_what_was_said_of_devices_goes_with_them(rest: list[str]) -> None:
    """The same device may be another claim's next, and its driver says something else of it then."""
    both = [RESULT, {**RESULT, "device": "e"}]
    old = status(ID, {**ID, "device": "e"}, results=both)
    new = {**old, "allocation": {"devices": {"results": [{**RESULT, "device": each} for each in rest]}}}
    if not rest:
        del new["allocation"]
    found = CLAIM.update({"status": new}, "status", old={"status": old}).document["status"]
    assert [each["device"] for each in found.get("devices", ())] == rest
