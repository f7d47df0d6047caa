"""Warnings about Services. Source: pkg/api/service/warnings.go."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.core.services.samples import HAS, LEAST, SERVICE
from tests.unit.catalogue.served_kinds import Changes

WARNINGS: Final[dict[str, tuple[Changes, list[str]]]] = {
    "nothing unusual": (HAS, []),
    "addresses outside": (
        {"spec.externalIPs": ["192.0.2.1"]},
        ["spec.externalIPs is deprecated and may no longer be implemented in some clusters"],
    ),
    "without an address inside they mean nothing": (
        {"spec.clusterIP": "None", "spec.externalIPs": ["192.0.2.1"], "spec.loadBalancerIP": "192.0.2.1"},
        [
            "spec.loadBalancerIP is ignored for headless services",
            "spec.externalIPs is ignored for headless services",
        ],
    ),
    "a name elsewhere that is here": (
        {"spec.externalName": "x.example.com"},
        ['spec.externalName is ignored when spec.type is not "ExternalName"'],
    ),
    "an address in an unusual form": (
        {"spec.loadBalancerIP": "::ffff:192.0.2.1"},
        ['spec.loadBalancerIP: non-standard IP address "::ffff:192.0.2.1" is invalid: use "192.0.2.1"'],
    ),
    "a network that is an address": (
        {"spec.loadBalancerSourceRanges": ["10.0.0.1/8"]},
        [
            (
                'spec.loadBalancerSourceRanges[0]: CIDR value "10.0.0.1/8" is ambiguous in this '
                "context (should be "
                '"10.0.0.0/8" or "10.0.0.1/32"?)'
            )
        ],
    ),
    "a word for near that is not clear": (
        {"spec.trafficDistribution": "PreferClose"},
        ['spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), WARNINGS.values(), ids=WARNINGS)
def test_warnings(changes: Changes, texts: list[str]) -> None:
    document = SERVICE.created(LEAST, changes).document
    assert SERVICE.strategy.warn(document, None) == texts
