"""ResourceSlices. Source: pkg/apis/resource/validation (release 1.36)."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.resource.test_resource_claims import SLICE
from tests.unit.catalogue.served_kinds import Changes

INVALID_SLICES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "it is somewhere": (
        {"spec.nodeName": None},
        [
            (
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
                "`perDeviceNodeSelection` is required"
            )
        ],
    ),
    "it is in one place": (
        {"spec.allNodes": True},
        [
            (
                'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, '
                "`allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set"
            )
        ],
    ),
    "devices differ": (
        {"spec.devices": [{"name": "a"}, {"name": "a"}]},
        ['spec.devices[1]: Duplicate value: "a"'],
    ),
    "an attribute has one value": (
        {"spec.devices.0.attributes": {"x": {"bool": True, "int": 1}}},
        [
            (
                'spec.devices[0].attributes[x]: Invalid value: {"bool":true,"int":1}: exactly one value must '
                "be specified"
            )
        ],
    ),
    "a version is semantic": (
        {"spec.devices.0.attributes": {"x": {"version": "1.0"}}},
        [
            (
                'spec.devices[0].attributes[x].version: Invalid value: "1.0": must be a string '
                "compatible with "
                "semver.org spec 2.0.0"
            )
        ],
    ),
    "a pool has slices": (
        {"spec.pool.resourceSliceCount": 0},
        ["spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID_SLICES.values(), ids=INVALID_SLICES)
def test_slices_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert SLICE.create(changes).texts == texts


VERSIONS: Final = {
    "1.2.3": True,
    "1.0.0-alpha.1+b.01": True,
    "1.0.0-a-01": True,
    "1.0.0-01": False,
    "01.0.0": False,
}


@pytest.mark.parametrize(("version", "is_right"), VERSIONS.items(), ids=VERSIONS)
def test_versions(version: str, is_right: bool) -> None:
    errors = SLICE.create({"spec.devices.0.attributes": {"x": {"version": version}}}).errors
    assert (errors == []) is is_right


def test_whose_slice_it_is_stays() -> None:
    assert SLICE.update({"spec.nodeName": "m", "spec.pool.name": "q"}).texts == [
        'spec.pool.name: Invalid value: "q": field is immutable',
        'spec.nodeName: Invalid value: "m": field is immutable',
    ]
    assert SLICE.update({"spec.devices": []}).errors == []


@pytest.mark.parametrize(("driver", "warns"), [("d.example.com", False), ("D.example.com", True)])
def test_names_of_drivers_should_be_lowercase(driver: str, warns: bool) -> None:
    document = SLICE.create({"spec.driver": driver}).document
    text = f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters'
    expected = [text] if warns else []
    assert SLICE.strategy.warn(document, None) == SLICE.strategy.warn(document, document) == expected
