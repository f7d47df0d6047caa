"""LeaseCandidates of coordination/v1alpha1. Source: pkg/apis/coordination/validation (release 1.31)."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

OLDEST: Final = "OldestEmulationVersion"
SPEC: Final = {
    "leaseName": "scheduler",
    "binaryVersion": "1.31.0",
    "emulationVersion": "1.30.0",
    "preferredStrategies": ["example.com/best", OLDEST],
}
CANDIDATE: Final = OldKind("leasecandidates.coordination.k8s.io", "v1alpha1", 31, {"spec": SPEC})


def test_later_versions_have_the_first_strategy() -> None:
    assert CANDIDATE.create().texts == []
    document = CANDIDATE.completed()
    current = CANDIDATE.to_hub(document)
    assert current["spec"]["strategy"] == "example.com/best"
    assert read_by_current(document) == current
    assert CANDIDATE.from_hub(current) == document
    current["spec"]["strategy"] = OLDEST
    assert CANDIDATE.from_hub(current)["spec"]["preferredStrategies"] == [OLDEST]
    assert CANDIDATE.resource.has_protobuf


MISSING: Final = f"Required value: must be specified when `strategy` is '{OLDEST}'"
STRATEGIES: Final = "spec.preferredStrategies"
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "no lease": ({"spec.leaseName": ""}, ["spec.leaseName: Required value"]),
    "no strategies": (
        {STRATEGIES: []},
        [f"{STRATEGIES}: Required value: must contain at least one strategy"],
    ),
    "no such strategy": (
        {STRATEGIES: ["Best", "a/b/c"]},
        [
            f'{STRATEGIES}[0].strategy: Unsupported value: "Best": supported values: "{OLDEST}"',
            f'{STRATEGIES}[1].strategy: Invalid value: "a/b/c": a valid label key must consist of',
        ],
    ),
    "no versions": (
        {"spec.binaryVersion": "", "spec.emulationVersion": ""},
        [f"spec.binaryVersion: {MISSING}", f"spec.emulationVersion: {MISSING}"],
    ),
    "no versions, and no need": (
        {"spec.binaryVersion": "", "spec.emulationVersion": "", STRATEGIES: ["example.com/best"]},
        [],
    ),
    "an older program": (
        {"spec.binaryVersion": "1.29.0"},
        ['spec.binaryVersion: Invalid value: "1.29.0": must be greater than or equal to `emulationVersion`'],
    ),
}


@pytest.mark.parametrize(("changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, beginnings: list[str]) -> None:
    assert_texts_begin(CANDIDATE.create(changes).texts, beginnings)


def test_the_lease_stays() -> None:
    (text,) = CANDIDATE.update({"spec.leaseName": "other"}).texts
    assert text == 'spec.leaseName: Invalid value: "other": field is immutable'
