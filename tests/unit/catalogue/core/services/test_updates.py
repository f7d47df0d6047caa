"""What may not change of a Service. Source: pkg/apis/core/validation, ValidateServiceUpdate."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.core.services.samples import BALANCED, DUAL, HAS, IP, NODE_PORT, SERVICE, stored
from tests.unit.catalogue.served_kinds import Changes

REFUSED: Final[dict[str, tuple[Changes, Changes, list[str]]]] = {
    "an address is for good": (
        HAS,
        {"spec.clusterIP": "10.96.0.8"},
        ['spec.clusterIPs[0]: Invalid value: ["10.96.0.8"]: may not change once set'],
    ),
    "also whether there is one": (
        HAS,
        {"spec.clusterIP": "None"},
        ['spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set'],
    ),
    "a class is for good": (
        BALANCED,
        {"spec.loadBalancerClass": "example.com/other"},
        ['spec.loadBalancerClass: Invalid value: "example.com/other": may not change once set'],
    ),
    "so is the port of the health check": (
        BALANCED,
        {"spec.healthCheckNodePort": 30082},
        ["spec.healthCheckNodePort: Forbidden: field is immutable"],
    ),
    "what is given up is not changed at the same time": (
        NODE_PORT,
        {"spec.type": "ClusterIP", "spec.ports.0.nodePort": 30081},
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
}


@pytest.mark.parametrize(("before", "changes", "texts"), REFUSED.values(), ids=REFUSED)
def test_changes_that_are_refused(before: Changes, changes: Changes, texts: list[str]) -> None:
    assert SERVICE.updated(stored(before), changes).texts == texts


def test_a_second_address_comes_and_goes_as_the_policy_says() -> None:
    one = stored({"spec.clusterIP": "fd00::1"}, DUAL)
    document, errors = DUAL.updated(one, {"spec.ipFamilyPolicy": "RequireDualStack"})
    assert (errors, document["spec"]["ipFamilies"]) == ([], ["IPv6", "IPv4"])
    document["spec"]["clusterIPs"] = ["fd00::1", IP]
    kept = DUAL.updated(document, {"spec.clusterIPs": ["fd00::1"], "spec.ipFamilies": ["IPv6"]}).texts
    assert [text.partition(": ")[2] for text in kept if "cluster IP" in text] == [
        ("Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary cluster IP")
    ]
    single = DUAL.updated(document, {"spec.ipFamilyPolicy": "SingleStack"})
    assert single.errors == []
    assert single.document["spec"]["clusterIPs"] == ["fd00::1"]
    assert single.document["spec"]["ipFamilies"] == ["IPv6"]
