"""When an API goes, and what comes instead, as who still calls it is told."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.meta.releases.lifecycles import known_lifecycles
from apiserver.meta.vocabulary import Removal

POLICIES: Final = ("admissionregistration.k8s.io/v1beta1", "mutatingadmissionpolicies")
CIDRS: Final = ("networking.k8s.io/v1beta1", "servicecidrs")
REMOVALS: Final = {
    "one that stays": (("v1", "pods"), 36, None),
    "one that is deprecated and stays": (
        ("v1", "endpoints"),
        36,
        Removal("", "discovery.k8s.io/v1 EndpointSlice"),
    ),
    "the same, before": (("v1", "endpoints"), 32, None),
    "one that is deprecated and goes": (CIDRS, 36, Removal("1.37", "networking.k8s.io/v1 ServiceCIDR")),
    "before it is deprecated, and before what replaces it": (
        CIDRS,
        31,
        Removal("1.37", "networking.k8s.io/v1 ServiceCIDR"),
    ),
    "one whose warning tells no replacement": (
        POLICIES,
        36,
        Removal("1.40", "admissionregistration.k8s.io/v1 MutatingAdmissionPolicy"),
    ),
    "one that nothing replaces": (("policy/v1beta1", "podsecuritypolicies"), 24, Removal("1.25", "")),
}


@pytest.mark.parametrize(("api", "minor", "removal"), REMOVALS.values(), ids=REMOVALS)
def test_when_an_api_goes(api: tuple[str, str], minor: int, removal: Removal | None) -> None:
    assert known_lifecycles()[api].removal(minor, "k8s.io") == removal


def test_replacements_have_the_domain_of_the_server() -> None:
    assert known_lifecycles()[CIDRS].removal(36, "example.org") == Removal(
        "1.37", "networking.example.org/v1 ServiceCIDR"
    )
