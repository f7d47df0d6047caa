"""LimitRanges. Source: pkg/apis/core/v1/defaults.go, and pkg/apis/core/validation, ValidateLimitRange."""

from __future__ import annotations

import uuid
from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import ServedKind, least

RANGE: Final = ServedKind("limitranges")


def limits(*items: dict[str, Any]) -> dict[str, Any]:
    return least("LimitRange", spec={"limits": list(items)})


def of(**amounts: str) -> dict[str, Any]:
    """Limits of a container's memory."""
    return {"type": "Container", **{field: {"memory": amount} for field, amount in amounts.items()}}


DEFAULTS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "a request is the limit": (of(default="1Gi"), of(default="1Gi", defaultRequest="1Gi")),
    "a limit is the most there may be": (of(max="2Gi"), of(max="2Gi", default="2Gi", defaultRequest="2Gi")),
    "a request is at least the least": (of(min="1Mi"), of(min="1Mi", defaultRequest="1Mi")),
    "what is said stays": (of(max="2Gi", default="1Gi", defaultRequest="1Mi"),) * 2,
    "pods as a whole have none": ({"type": "Pod", "max": {"cpu": "1"}},) * 2,
}


@pytest.mark.parametrize(("item", "expected"), DEFAULTS.values(), ids=DEFAULTS)
def test_containers_have_defaults(item: dict[str, Any], expected: dict[str, Any]) -> None:
    document, errors = RANGE.created(limits(item))
    assert errors == []
    assert document["spec"]["limits"] == [expected]


PATH: Final = "spec.limits[0]"
INVALID: Final[dict[str, tuple[list[dict[str, Any]], list[str]]]] = {
    "a type is known": (
        [{"type": "Node"}],
        [f'{PATH}.type: Invalid value: "Node": must be a standard limit type or fully qualified'],
    ),
    "or somebody's own": ([{"type": "example.com/node", "max": {"storage": "1"}}], []),
    "a type has one item": (
        [of(max="1Gi"), of(max="1Gi")],
        ['spec.limits[1].type: Duplicate value: "Container"'],
    ),
    "containers ask for what containers have": (
        [{"type": "Container", "max": {"pods": "1"}}],
        [
            f'{PATH}.{field}[pods]: Invalid value: "pods": must be a standard resource for containers'
            for field in ("max", "default", "defaultRequest")
        ],
    ),
    "pods as a whole have no defaults": (
        [{"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}],
        [
            f"{PATH}.default: Forbidden: may not be specified when `type` is 'Pod'",
            f"{PATH}.defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
        ],
    ),
    "claims are limited somehow": (
        [{"type": "PersistentVolumeClaim"}],
        [
            (
                f"{PATH}.limits: Required value: either minimum or maximum storage value is required, "
                "but neither "
                "was provided"
            )
        ],
    ),
    "least, default and most are in order": (
        [of(min="2Gi", max="1Gi")],
        [
            f'{PATH}.min[memory]: Invalid value: "2Gi": min value 2Gi is greater than max value 1Gi',
            (
                f'{PATH}.defaultRequest[memory]: Invalid value: "1Gi": min value 2Gi is greater than '
                "default request "
                "value 1Gi"
            ),
            f'{PATH}.default[memory]: Invalid value: "2Gi": min value 2Gi is greater than default value 1Gi',
        ],
    ),
    "a request is at most the limit": (
        [of(default="1Gi", defaultRequest="2Gi")],
        [
            (
                f'{PATH}.defaultRequest[memory]: Invalid value: "2Gi": default request value 2Gi is '
                "greater than "
                "default limit value 1Gi"
            )
        ],
    ),
    "a ratio is at least one": (
        [of(maxLimitRequestRatio="500m")],
        [f'{PATH}.maxLimitRequestRatio[memory]: Invalid value: "500m": ratio 500m is less than 1'],
    ),
    "and at most what is possible": (
        [of(min="1Gi", max="2Gi", maxLimitRequestRatio="3")],
        [
            (
                f'{PATH}.maxLimitRequestRatio[memory]: Invalid value: "3": ratio 3 is greater than '
                "max/min = 2.000000"
            )
        ],
    ),
    "whatever is possible": ([of(min="0", max="2Gi", maxLimitRequestRatio="3")], []),
    "huge pages are requested as they are limited": (
        [
            {
                "type": "Container",
                "default": {"hugepages-2Mi": "4Mi"},
                "defaultRequest": {"hugepages-2Mi": "2Mi"},
            }
        ],
        [
            (
                f'{PATH}.defaultRequest[hugepages-2Mi]: Invalid value: "2Mi": default value 4Mi must '
                "equal to "
                "defaultRequest value 2Mi in hugepages-2Mi"
            )
        ],
    ),
}


@pytest.mark.parametrize(("items", "texts"), INVALID.values(), ids=INVALID)
def test_errors_in_limits(items: list[dict[str, Any]], texts: list[str]) -> None:
    assert RANGE.created(limits(*items)).texts == texts


def test_changes_follow_the_same_rules() -> None:
    old = RANGE.created(limits(of(max="1Gi"))).document
    assert len(RANGE.updated(old, {"spec.limits": [of(min="2Gi", max="1Gi")]}).errors) == 3


@pytest.mark.parametrize("meta", [{}, {"name": ""}])
def test_one_without_a_name_gets_one(meta: dict[str, str]) -> None:
    document = {"metadata": dict(meta)}
    RANGE.strategy.prepare_create(document)
    assert uuid.UUID(document["metadata"]["name"]).version == 4


def test_a_name_stays() -> None:
    assert RANGE.create().document["metadata"]["name"] == "a"
