"""ResourceQuotas. Source: pkg/apis/core/validation, ValidateResourceQuota."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind, assert_texts_begin, least

QUOTA: Final = ServedKind("resourcequotas")
LEAST: Final = least("ResourceQuota", spec={"hard": {"pods": "2", "count/configmaps": "3"}})
_STANDARD: Final = "must be a standard resource for quota"
_FITS: Final = "unsupported scope applied to resource"


def selector(scope: str, operator: str, *values: str) -> Changes:
    return {
        "spec.hard": {"pods": "1"},
        "spec.scopeSelector": {
            "matchExpressions": [{"scopeName": scope, "operator": operator, "values": list(values)}]
        },
    }


_WHERE: Final = "spec.scopeSelector.matchExpressions"
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a good one": ({}, []),
    "of many kinds": (
        {
            "spec.hard": {
                "requests.cpu": "1",
                "limits.memory": "1Gi",
                "requests.hugepages-2Mi": "4Mi",
                "x.io/y": "1",
            }
        },
        [],
    ),
    "of a resource nobody knows": (
        {"spec.hard": {"bogus": "1"}},
        [
            'spec.hard[bogus]: Invalid value: "bogus": must be a standard resource type or fully qualified',
            f'spec.hard[bogus]: Invalid value: "bogus": {_STANDARD}',
        ],
    ),
    "of one that no quota is about": (
        {"spec.hard": {"storage": "1"}},
        [f'spec.hard[storage]: Invalid value: "storage": {_STANDARD}'],
    ),
    "less than nothing": (
        {"spec.hard": {"cpu": "-1"}},
        ['spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
    ),
    "half an object": (
        {"spec.hard": {"count/configmaps": "500m"}},
        ['spec.hard[count/configmaps]: Invalid value: "500m": must be an integer'],
    ),
    "scopes of pods": ({"spec.scopes": ["Terminating"], "spec.hard": {"pods": "1", "cpu": "1"}}, []),
    "that others do not have": (
        {"spec.scopes": ["BestEffort"], "spec.hard": {"pods": "1", "cpu": "1"}},
        [f'spec.scopes: Invalid value: ["BestEffort"]: {_FITS}'],
    ),
    "a scope nobody knows": (
        {"spec.scopes": ["X"]},
        ['spec.scopes: Invalid value: ["X"]: unsupported scope'],
    ),
    "scopes that exclude each other": (
        {"spec.scopes": ["Terminating", "NotTerminating"], "spec.hard": {"pods": "1"}},
        ['spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes'],
    ),
    "some priorities": (selector("PriorityClass", "In", "high"), []),
    "none of them": (
        selector("PriorityClass", "In"),
        [
            (
                f"{_WHERE}.values: Required value: must be at least one value when `operator` is 'In' "
                "or 'NotIn' for "
                "scope selector"
            )
        ],
    ),
    "values where there are none": (
        selector("PriorityClass", "Exists", "high"),
        [
            (
                f"{_WHERE}.values: Invalid value: [\"high\"]: must be no value when `operator` is 'Exist' or "
                "'DoesNotExist' for scope selector"
            )
        ],
    ),
    "a scope without values is there or not": (
        selector("BestEffort", "In", "x"),
        [f"{_WHERE}.operator: Invalid value: \"In\": must be 'Exists' when scope is any of"],
    ),
    "no operator": (
        selector("PriorityClass", "Like"),
        [f'{_WHERE}.operator: Invalid value: "Like": not a valid selector operator'],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_quotas(changes: Changes, texts: list[str]) -> None:
    assert_texts_begin(QUOTA.created(LEAST, changes).texts, texts)


def test_usage_is_the_statuss() -> None:
    status = {"hard": {"pods": "2"}, "used": {"pods": "1"}}
    document = QUOTA.created(LEAST, {"status": status}).document
    assert document["status"] == {}
    document["status"] = status
    assert QUOTA.updated(document, {"status.used": {"pods": "0"}}).document["status"] == status
    used = QUOTA.updated(document, {"status.used": {"pods": "-1"}}, "status")
    assert used.texts == ['status.used[pods]: Invalid value: "-1": must be greater than or equal to 0']


def test_scopes_are_for_good() -> None:
    old = QUOTA.created(
        LEAST, {"spec.hard": {"pods": "1"}, "spec.scopes": ["Terminating", "NotBestEffort"]}
    ).document
    assert QUOTA.updated(old, {"spec.scopes": ["NotBestEffort", "Terminating"]}).errors == []
    assert QUOTA.updated(old, {"spec.hard": {"pods": "5"}}).errors == []
    assert QUOTA.updated(old, {"spec.scopes": ["Terminating"]}).texts == [
        'spec.scopes: Invalid value: ["Terminating"]: field is immutable'
    ]
