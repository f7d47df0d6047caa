"""DeviceTaintRules. Source: pkg/apis/resource/validation (release 1.36); rows H01, H02, H09, S03."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import WriteContext
from tests.unit.catalogue.removed_versions.old_kinds import OldKind, catalogue, read_by_current
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

RULES: Final = "devicetaintrules.resource.k8s.io"
TAINT: Final = {"key": "example.com/broken", "value": "yes", "effect": "NoExecute"}
SPEC: Final = {
    "deviceSelector": {"driver": "gpu.example.com", "pool": "a/b", "device": "gpu-0"},
    "taint": TAINT,
}
RULE: Final = OldKind(RULES, "v1beta2", 36, {"spec": SPEC})

INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "no taint": (
        {"spec.taint": {}},
        [
            'spec.taint.key: Invalid value: "": name part must be non-empty',
            'spec.taint.key: Invalid value: "": name part must consist',
            "spec.taint.effect: Required value",
        ],
    ),
    "an effect of nodes": (
        {"spec.taint.effect": "PreferNoSchedule"},
        ['spec.taint.effect: Unsupported value: "PreferNoSchedule": supported values: "NoExecute", "NoSc'],
    ),
    "a bad value": (
        {"spec.taint.value": "a b"},
        ['spec.taint.value: Invalid value: "a b": a valid label must'],
    ),
    "a bad selector": (
        {"spec.deviceSelector": {"driver": "", "pool": "", "device": "A"}},
        [
            "spec.deviceSelector.driver: Required value",
            "spec.deviceSelector.pool: Required value",
            'spec.deviceSelector.device: Invalid value: "A": a lowercase RFC 1123 label must',
        ],
    ),
}


@pytest.mark.parametrize(("changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, beginnings: list[str]) -> None:
    assert_texts_begin(RULE.create(changes).texts, beginnings)


VALID: Final[dict[str, Changes]] = {
    "a device": {},
    "all devices": {"spec.deviceSelector": {}},
    "none": {"spec.deviceSelector": None},
    "nothing follows": {"spec.taint.effect": "None"},
}


@pytest.mark.parametrize("changes", VALID.values(), ids=VALID)
def test_valid(changes: Changes) -> None:
    created = RULE.create(changes)
    assert created.texts == []
    assert created.document["status"] == {}


def test_an_effect_that_a_later_release_has_added_may_stay() -> None:
    later = {"spec.taint.effect": "Later"}
    assert RULE.update({"spec.taint.key": "other"}, old=later).texts == []
    (text,) = RULE.update(later).texts
    assert text.startswith('spec.taint.effect: Unsupported value: "Later"')


# The taint that is written, that before, and its time.
OLD: Final = "2024-01-01T00:00:00Z"
NOW: Final = "2024-05-06T07:08:09Z"
TIMES: Final[dict[str, tuple[Document, Document | None, str]]] = {
    "a new one": (TAINT, None, NOW),
    "a new one with a time": ({**TAINT, "timeAdded": OLD}, None, OLD),
    "as before": ({**TAINT, "timeAdded": OLD}, {**TAINT, "timeAdded": OLD}, OLD),
    "no time any more": (TAINT, {**TAINT, "timeAdded": OLD}, NOW),
    "another effect": ({**TAINT, "effect": "None", "timeAdded": OLD}, {**TAINT, "timeAdded": OLD}, NOW),
    "another effect, and another time": (
        {**TAINT, "effect": "None", "timeAdded": "2024-02-01T00:00:00Z"},
        {**TAINT, "timeAdded": OLD},
        "2024-02-01T00:00:00Z",
    ),
}


@pytest.mark.parametrize(("taint", "before", "time"), TIMES.values(), ids=TIMES)
def test_when_the_effect_was_added(taint: Document, before: Document | None, time: str) -> None:
    new: dict[str, Any] = {"spec": {"taint": dict(taint)}}
    stamp, strategy = WriteContext(None, NOW), RULE.strategy
    if before is None:
        assert strategy.stamp_create is not None
        strategy.stamp_create(stamp, new)
    else:
        assert strategy.update.stamp is not None
        strategy.update.stamp(stamp, new, {"spec": {"taint": before}})
    assert new["spec"]["taint"]["timeAdded"] == time


def condition(kind: str) -> Document:
    return {"type": kind, "status": "True", "reason": "R", "lastTransitionTime": NOW, "message": ""}


def test_a_status_has_few_conditions() -> None:
    conditions = [condition(f"A{index}") for index in range(9)]
    assert RULE.update({"status": {"conditions": conditions[:8]}}, "status").texts == []
    (text,) = RULE.update({"status": {"conditions": conditions}}, "status").texts
    assert text == "status.conditions: Too many: 9: must have at most 8 items"


# Versions, and releases that have them.
VERSIONS: Final = {"v1alpha3": 35, "v1": 37}


@pytest.mark.parametrize(("version", "minor"), VERSIONS.items(), ids=VERSIONS)
def test_other_versions_are_the_same(version: str, minor: int) -> None:
    rule = OldKind(RULES, version, minor, {"spec": SPEC})
    assert rule.create().texts == []
    assert read_by_current(rule.completed()) == RULE.completed()
    assert rule.resource.has_protobuf
    assert set(rule.resource.subresources) == {"status"}
    assert rule.strategy.allows_unconditional_update is (version != "v1"), (
        "from v1 on it has to name a version"
    )


def test_the_status_came_later() -> None:
    assert not OldKind(RULES, "v1alpha3", 34, {"spec": SPEC}).resource.subresources


STORED: Final = {33: "v1alpha3", 35: "v1alpha3", 36: "v1alpha3", 37: "v1beta2"}


@pytest.mark.parametrize(("minor", "version"), STORED.items(), ids=STORED)
def test_what_is_stored(minor: int, version: str) -> None:
    every = catalogue(minor).all_versions()
    assert {each.storage_version for each in every if each.resource == "devicetaintrules"} == {version}
