"""What a quota says is used, where objects of its namespace cannot be read."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.core.resource_quotas.usage import (
    CLAIMS,
    PODS,
    SERVICES,
    QuotaEvaluator,
    UsageCalculation,
)
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document, GroupResource

CONFIG_MAPS: Final = GroupResource("", "configmaps")
CONTAINER: Final = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
POD: Final = {"metadata": {}, "spec": {"containers": [CONTAINER]}}
NODE_PORT: Final = {"metadata": {}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
CLAIM: Final = {"metadata": {}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
CONFIG_MAP: Final[Document] = {"metadata": {}}
OF_CLASS: Final = "gold.storageclass.storage.k8s.io/persistentvolumeclaims"

# The resource; what its status said before; a sound object, of which there is one; what it says with two
# others that cannot be read.
UNREADABLE: Final[dict[str, tuple[GroupResource, dict[str, str], Document, dict[str, str]]]] = {
    "they count by the piece": (PODS, {"pods": "0"}, POD, {"pods": "3"}),
    "under both names": (PODS, {"pods": "0", "count/pods": "0"}, POD, {"pods": "3", "count/pods": "3"}),
    "of any kind": (CONFIG_MAPS, {"configmaps": "9"}, CONFIG_MAP, {"configmaps": "3"}),
    "services": (SERVICES, {"services": "0"}, NODE_PORT, {"services": "3"}),
    "claims": (CLAIMS, {"persistentvolumeclaims": "0"}, CLAIM, {"persistentvolumeclaims": "3"}),
    "amounts do not shrink": (PODS, {"requests.cpu": "5"}, POD, {"requests.cpu": "5"}),
    "but grow": (PODS, {"requests.cpu": "500m"}, POD, {"requests.cpu": "1"}),
    "pieces of some objects only are amounts, too": (
        SERVICES,
        {"services.nodeports": "4", "services": "4"},
        NODE_PORT,
        {"services.nodeports": "4", "services": "3"},
    ),
    "claims of a class": (CLAIMS, {OF_CLASS: "2"}, CLAIM, {OF_CLASS: "2"}),
}


def used(quota: dict[str, Any], resource: GroupResource, sound: Document, unreadable: int) -> Document | None:
    calculation, evaluator = UsageCalculation(quota), QuotaEvaluator(resource, Brand())
    names = calculation.begin(evaluator)
    calculation.add(evaluator.usage(sound, 0.0), names)
    if unreadable:
        calculation.add_unreadable(unreadable, evaluator, names)
    status = calculation.status()
    return None if status is None else status["used"]


@pytest.mark.parametrize(("resource", "before", "sound", "after"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_counts(
    resource: GroupResource, before: dict[str, str], sound: Document, after: dict[str, str]
) -> None:
    hard = dict.fromkeys(before, "10")
    quota = {"spec": {"hard": hard}, "status": {"hard": hard, "used": before}}
    assert used(quota, resource, sound, 2) == (None if after == before else after)


def test_of_a_new_quota_amounts_are_unknown() -> None:
    """Admission refuses what would use some: nobody knows how much is left."""
    quota = {"spec": {"hard": {"pods": "10", "requests.cpu": "10"}}}
    assert used(quota, PODS, POD, 1) == {"pods": "2"}
    assert used(quota, PODS, POD, 0) == {"pods": "1", "requests.cpu": "1"}
