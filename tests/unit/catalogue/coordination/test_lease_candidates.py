"""LeaseCandidates. Source: pkg/apis/coordination/validation (release 1.36); rows H01, H02, S03."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, catalogue, read_by_current
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

SPEC: Final = {
    "leaseName": "scheduler",
    "binaryVersion": "1.36.0",
    "emulationVersion": "1.35.0",
    "strategy": "OldestEmulationVersion",
}
CANDIDATE: Final = OldKind("leasecandidates.coordination.k8s.io", "v1beta1", 36, {"spec": SPEC})

INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "nothing at all": (
        {"spec": {"leaseName": "", "binaryVersion": ""}},
        [f"spec.{field}: Required value" for field in ("leaseName", "binaryVersion", "strategy")],
    ),
    "no emulated version": (
        {"spec.emulationVersion": None},
        ["spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmu"],
    ),
    "an emulated version of zeros": (
        {"spec.emulationVersion": "0.0.0"},
        ["spec.emulationVersion: Required value: must be specified"],
    ),
    "versions begin with no letter": (
        {"spec.binaryVersion": "v1.36.0", "spec.emulationVersion": "1.35"},
        [
            'spec.emulationVersion: Invalid value: "1.35": must be a valid semantic version',
            'spec.binaryVersion: Invalid value: "v1.36.0": must be a valid semantic version',
            "spec.emulationVersion: Required value: must be specified",
        ],
    ),
    "a later release is emulated": (
        {"spec.emulationVersion": "1.37.0-alpha.1"},
        ['spec.binaryVersion: Invalid value: "1.36.0": must be greater than or equal to `emulationVersion`'],
    ),
    "an unknown strategy": (
        {"spec.strategy": "Newest"},
        ['spec.strategy.strategy: Unsupported value: "Newest": supported values: "OldestEmulationVersion"'],
    ),
    "a strategy of somebody else": ({"spec.strategy": "example.com/Newest"}, []),
    "a strategy without a name": (
        {"spec.strategy": "example.com/"},
        [
            'spec.strategy.strategy: Invalid value: "example.com/": name part must be non-empty',
            'spec.strategy.strategy: Invalid value: "example.com/": name part must consist',
        ],
    ),
}


@pytest.mark.parametrize(("changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, beginnings: list[str]) -> None:
    assert CANDIDATE.create().texts == []
    assert_texts_begin(CANDIDATE.create(changes).texts, beginnings)


def test_a_candidate_stays_one_for_its_lease() -> None:
    assert CANDIDATE.update({"spec.renewTime": "2024-05-06T07:08:09.000000Z"}).texts == []
    (text,) = CANDIDATE.update({"spec.leaseName": "other"}).texts
    assert text == 'spec.leaseName: Invalid value: "other": field is immutable'
    strategy = CANDIDATE.strategy
    assert strategy.allows_create_on_update
    assert not strategy.allows_unconditional_update


def test_names_may_be_those_of_pods_with_ids() -> None:
    assert CANDIDATE.strategy.name_rule("Scheduler_0.a-") == []
    assert CANDIDATE.strategy.name_rule("a/b")


def test_rows() -> None:
    cells: dict[str, Any] = {
        "LeaseName": "scheduler",
        "BinaryVersion": "1.36.0",
        "EmulationVersion": "1.35.0",
    }
    assert cells.items() <= CANDIDATE.cells().items()


def test_v1alpha2_is_the_same() -> None:
    alpha = OldKind("leasecandidates.coordination.k8s.io", "v1alpha2", 36, {"spec": SPEC})
    document = alpha.completed()
    assert read_by_current(document) == CANDIDATE.completed()
    assert alpha.create().texts == []


# The version in which each release stores them: one that the release before can read.
STORED: Final = {32: "v1alpha2", 33: "v1alpha2", 34: "v1beta1", 36: "v1beta1", 37: "v1beta1"}


@pytest.mark.parametrize(("minor", "version"), STORED.items(), ids=STORED)
def test_what_is_stored(minor: int, version: str) -> None:
    found = {
        each.storage_version for each in catalogue(minor).all_versions() if each.resource == "leasecandidates"
    }
    assert found == {version}
