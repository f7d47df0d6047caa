"""How much of a device's capacity may be asked for.

Source: pkg/apis/resource/validation, validateRequestPolicy (release 1.36); KEP-5075.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind

CAPACITY: Final = "spec.devices[0].capacity[ram]"
POLICY: Final = f"{CAPACITY}.requestPolicy"
VALID: Final[dict[str, Any]] = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
VALUES: Final[dict[str, Any]] = {"default": "2", "validValues": ["1", "2", "4"]}


def device(policy: Any, value: str = "8Gi", **more: Any) -> dict[str, Any]:
    capacity = {"ram": {"value": value, "requestPolicy": policy}}
    return {"name": "d", "allowMultipleAllocations": True, "capacity": capacity, **more}


SLICE: Final = ServedKind(
    "resourceslices.resource.k8s.io",
    {
        "spec": {
            "driver": "d.example.com",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [device(VALID)],
        }
    },
)


def ranged(default: str = "1Gi", **bounds: str) -> dict[str, Any]:
    return {"default": default, "validRange": bounds}


RIGHT: Final[dict[str, Any]] = {
    "a range": VALID,
    "a range without an end": ranged(min="1Gi"),
    "a range without steps": ranged("3", min="1", max="7"),
    "values": {"default": "1Gi", "validValues": ["512Mi", "1Gi", "8Gi"]},
    "a default alone": {"default": "9Gi"},
    "nothing": {},
    "no values, and no default": {"validValues": []},
    "no values and a range": {**VALID, "validValues": []},
    "null": None,
    "values in other units": {"default": "1024Mi", "validValues": ["1Gi"]},
    "a range of one": ranged("8Gi", min="8Gi", max="8Gi"),
    "nothing at least": ranged("0", min="0", step="2Gi"),
}


@pytest.mark.parametrize("policy", RIGHT.values(), ids=RIGHT)
def test_policies(policy: Any) -> None:
    assert SLICE.create({"spec.devices": [device(policy)]}).texts == []


BOTH: Final = (
    f'{POLICY}: Forbidden: exactly one policy can be specified, cannot specify "validValues" and '
    '"validRange" '
    "at the same time"
)
WHOLE_MAX: Final = "9223372036854775807"
# What is asked, of how much, and what is wrong with it.
WRONG: Final[dict[str, tuple[Any, str, list[str]]]] = {
    "values and a range": ({**VALID, "validValues": ["1Gi"]}, "8Gi", [BOTH]),
    "values without a default": (
        {"validValues": ["1Gi"]},
        "8Gi",
        [f"{POLICY}.default: Required value: required when validValues is defined"],
    ),
    "a range without a default": (
        {"validRange": {"min": "1Gi"}},
        "8Gi",
        [f"{POLICY}.default: Required value: required when validRange is defined"],
    ),
    "an empty range": (
        {"default": "1", "validRange": {}},
        "8Gi",
        [f"{POLICY}.validRange.min: Required value: required when validRange is defined"],
    ),
    "values out of order": (
        {"default": "1", "validValues": ["2", "1", "3"]},
        "8",
        [f'{POLICY}.validValues[1]: Invalid value: "1": values must be sorted in ascending order'],
    ),
    "a value that is too much": (
        {"default": "1", "validValues": ["1", "9"]},
        "8",
        [f'{POLICY}.validValues[1]: Invalid value: "9": option is larger than capacity value: 8'],
    ),
    "a value twice, in two units": (
        {"default": "1Gi", "validValues": ["1Gi", "1024Mi"]},
        "8Gi",
        [f'{POLICY}.validValues[1]: Duplicate value: "1073741824"'],
    ),
    "two values that are the same when rounded up": (
        {"default": "1", "validValues": ["500m", "1"]},
        "8",
        [f'{POLICY}.validValues[1]: Duplicate value: "1"'],
    ),
    "more values than ten": (
        {"default": "1", "validValues": [str(i) for i in range(1, 12)]},
        "20",
        [
            f"{POLICY}.validValues: Too many: 11: must have at most 10 items",
            (
                f'{POLICY}.validValues: Invalid value: "1": default value is not valid according to '
                "the requestPolicy"
            ),
        ],
    ),
    "a default that is no value": (
        {"default": "3", "validValues": ["1", "2"]},
        "8",
        [
            (
                f'{POLICY}.validValues: Invalid value: "3": default value is not valid according to '
                "the requestPolicy"
            )
        ],
    ),
    "a least that is too much": (
        ranged("9Gi", min="9Gi"),
        "8Gi",
        [f'{POLICY}.validRange.min: Invalid value: "9Gi": min is larger than capacity value: 8Gi'],
    ),
    "a default that is too little": (
        ranged("1Gi", min="2Gi"),
        "8Gi",
        [f'{POLICY}.validRange.min: Invalid value: "1Gi": default is less than min: 2Gi'],
    ),
    "a least above the most": (
        ranged("4", min="4", max="2"),
        "8",
        [
            f'{POLICY}.validRange.max: Invalid value: "4": min is larger than max: 2',
            f'{POLICY}.validRange.max: Invalid value: "4": default is more than max: 2',
        ],
    ),
    "a most that is too much": (
        ranged("1", min="1", max="9"),
        "8",
        [f'{POLICY}.validRange.max: Invalid value: "9": max is larger than capacity value: 8'],
    ),
    "no steps": (
        ranged("1", min="1", step="0"),
        "8",
        [f'{POLICY}.validRange.step: Invalid value: "0": must be greater than zero'],
    ),
    "steps back": (
        ranged("1", min="1", step="-1"),
        "8",
        [f'{POLICY}.validRange.step: Invalid value: "-1": must be greater than zero'],
    ),
    "a step that is too long": (
        ranged("1Gi", min="1Gi", step="8Gi"),
        "8Gi",
        [f'{POLICY}.validRange.step: Invalid value: "8Gi": one step 9Gi is larger than capacity value: 8Gi'],
    ),
    "a default and a most between steps": (
        ranged("2", min="1", max="6", step="2"),
        "8",
        [
            (
                f'{POLICY}.validRange.step: Invalid value: "2": value is not a multiple of a given '
                "step (2) from (1)"
            ),
            (
                f'{POLICY}.validRange.step: Invalid value: "6": value is not a multiple of a given '
                "step (2) from (1)"
            ),
        ],
    ),
    "steps from less than nothing": (
        ranged("1", min="-1", step="1"),
        "8",
        [f'{POLICY}.validRange.min: Invalid value: "-1": must be greater than or equal to 0'],
    ),
    "steps beyond 64 bits": (
        ranged("1", min="1", step="10E"),
        "100E",
        [f'{POLICY}.validRange.step: Invalid value: "10E": must not be larger than {WHOLE_MAX}'],
    ),
}


@pytest.mark.parametrize(("policy", "total", "texts"), WRONG.values(), ids=WRONG)
def test_policies_that_are_wrong(policy: Any, total: str, texts: list[str]) -> None:
    assert SLICE.create({"spec.devices": [device(policy, total)]}).texts == texts


@pytest.mark.parametrize("shared", [False, None], ids=["not", "unset"])
def test_a_device_that_is_not_shared_has_no_policies(shared: bool | None) -> None:
    found = SLICE.create({"spec.devices": [device(VALID, allowMultipleAllocations=shared)]})
    assert found.texts == [f"{POLICY}: Forbidden: allowMultipleAllocations must be true"]


# Of a slice that is stored with a policy that is wrong: what changes, and whether it is looked at again.
WRONG_POLICY: Final = ranged("1", min="1", step="0")
CHANGES: Final[dict[str, tuple[Changes, bool]]] = {
    "something else": ({"spec.pool.generation": 2}, False),
    "another feature of the device": ({"spec.devices.0.attributes": {"a": {"int": 1}}}, False),
    "the capacity": ({"spec.devices.0.capacity.ram.value": "9Gi"}, True),
    "the policy": ({"spec.devices.0.capacity.ram.requestPolicy.default": "2"}, True),
    "the name of the device": ({"spec.devices.0.name": "other"}, True),
    "another device": ({"spec.devices": [device(WRONG_POLICY), {"name": "e"}]}, False),
}


@pytest.mark.parametrize(("changes", "is_looked_at"), CHANGES.values(), ids=CHANGES)
def test_a_capacity_that_stays_is_not_looked_at_again(changes: Changes, is_looked_at: bool) -> None:
    found = SLICE.update(changes, old={"spec.devices": [device(WRONG_POLICY)]})
    assert bool(found.texts) is is_looked_at
