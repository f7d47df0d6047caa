"""Amounts in ResourceLists are rounded up to thousandths. Source: SetDefaults_ResourceList of 1.36."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.served_kinds import ServedKind

FINE: Final = {"cpu": "100u", "memory": "1.5Ki", "storage": "1n", "pods": "-1500u", "x": "1e-4"}
ROUNDED: Final = {"cpu": "1m", "memory": "1536", "storage": "1m", "pods": "-2m", "x": "1e-3"}
CLAIM_SPEC: Final = {"resources": {"requests": FINE, "limits": FINE}}
POD: Final = {
    "containers": [{"resources": {"requests": FINE, "limits": FINE}}],
    "volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM_SPEC}}}],
}
LISTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "quotas": ("resourcequotas", {"spec": {"hard": FINE}, "status": {"hard": FINE, "used": FINE}}),
    "limits": (
        "limitranges",
        {
            "spec": {
                "limits": [
                    {"type": "Pod", "max": FINE, "min": FINE, "maxLimitRequestRatio": FINE},
                    {"type": "Other", "default": FINE, "defaultRequest": FINE},
                ]
            }
        },
    ),
    "nodes": ("nodes", {"status": {"capacity": FINE, "allocatable": FINE}}),
    "volumes": ("persistentvolumes", {"spec": {"capacity": FINE}, "status": {}}),
    "claims": (
        "persistentvolumeclaims",
        {"spec": CLAIM_SPEC, "status": {"capacity": FINE, "allocatedResources": FINE}},
    ),
    "pods": (
        "pods",
        {
            "spec": {**POD, "overhead": FINE, "resources": {"requests": FINE, "limits": FINE}},
            "status": {
                "allocatedResources": FINE,
                "containerStatuses": [{"allocatedResources": FINE, "resources": {"limits": FINE}}],
            },
        },
    ),
    "templates of claims": (
        "statefulsets.apps",
        {"spec": {"template": {"spec": POD}, "volumeClaimTemplates": [{"spec": CLAIM_SPEC}]}},
    ),
    "templates of pods": ("podtemplates", {"template": {"spec": POD}}),
    "jobs": ("cronjobs.batch", {"spec": {"jobTemplate": {"spec": {"template": {"spec": POD}}}}}),
}


def counted(value: Any, wanted: Document) -> int:
    if value == wanted:
        return 1
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(counted(each, wanted) for each in children)


@pytest.mark.parametrize(("resource", "fields"), LISTS.values(), ids=LISTS)
def test_every_list_is_rounded_up(resource: str, fields: Document) -> None:
    kind = ServedKind(resource)
    completed = kind.completed({**kind.valid, **copy.deepcopy(fields)})
    count = counted(fields, FINE)
    assert count > 0
    assert (counted(completed, FINE), counted(completed, ROUNDED)) == (0, count)


def test_limits_are_compared_when_they_are_rounded() -> None:
    limits = [{"type": "Pod", "max": {"cpu": "1500u"}, "min": {"cpu": "1600u"}}]
    assert ServedKind("limitranges").create({"spec": {"limits": limits}}).errors == []
