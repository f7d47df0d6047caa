"""What each release has, serves by default, warns of and stores. Rows H01-H03, S05, S12, S14."""

from __future__ import annotations

from functools import cache
from typing import Final

import pytest

from apiserver.catalogue.builtins import Catalogue
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import (
    DEFAULT_RELEASE,
    NEWEST_MINOR,
    OLDEST_MINOR,
    EmulatedRelease,
    InvalidEmulation,
)
from apiserver.meta.releases.lifecycles import (
    BETA_OFF_SINCE,
    REMOVED_BEFORE,
    Lifecycle,
    Stability,
    known_lifecycles,
    lifecycle_of,
    storage_version,
)
from apiserver.registry.served_resource import ResourceTable, version_priority
from apiserver.schema.builtin import BuiltinSchemas

RELEASES: Final = range(OLDEST_MINOR, NEWEST_MINOR + 1)
LIVES: Final = tuple(known_lifecycles().values())


def life(group_version: str, resource: str) -> Lifecycle:
    return known_lifecycles()[group_version, resource]


def test_every_life_is_in_order() -> None:
    for each in LIVES:
        ends = [each.introduced, each.deprecated, each.removed]
        known = [end for end in ends if end is not None]
        assert known == sorted(set(known)), each


def test_every_replacement_is_in_the_table() -> None:
    for each in LIVES:
        for replacement in each.replacements:
            assert lifecycle_of(*replacement) is not None, each


# Of all types that are served: a type that is not in the table would never be.
def test_every_type_is_in_the_table() -> None:
    for minor in RELEASES:
        Catalogue(Brand(), BuiltinSchemas((1, 36)), release=EmulatedRelease.of(minor)).resources()


IN_RELEASES: Final = {
    # Rows T20, T26, T10, T01: a removed version is not there in the release that has removed it, nor later.
    ("extensions/v1beta1", "ingresses"): range(OLDEST_MINOR, 22),
    ("apps/v1beta2", "daemonsets"): range(OLDEST_MINOR, 16),
    ("policy/v1beta1", "poddisruptionbudgets"): range(OLDEST_MINOR, 25),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "flowschemas"): range(26, 32),
    ("networking.k8s.io/v1", "ingresses"): range(19, NEWEST_MINOR + 1),
    ("apps/v1", "deployments"): RELEASES,
    ("v1", "pods"): RELEASES,
    ("v1", "pods/resize"): range(33, NEWEST_MINOR + 1),
}


@pytest.mark.parametrize(("api", "releases"), IN_RELEASES.items(), ids=map(" ".join, IN_RELEASES))
def test_which_releases_have_it(api: tuple[str, str], releases: range) -> None:
    assert [minor for minor in RELEASES if life(*api).is_in(minor)] == list(releases)


ON_BY_DEFAULT: Final = {
    "H01: an alpha version is not": (
        "admissionregistration.k8s.io/v1alpha1",
        "mutatingadmissionpolicies",
        False,
    ),
    "H02: a beta version introduced before 1.22 is": ("storage.k8s.io/v1beta1", "csistoragecapacities", True),
    "H02: one introduced later is not": ("flowcontrol.apiserver.k8s.io/v1beta3", "flowschemas", False),
    "H03: a stable version is": ("apps/v1", "deployments", True),
}


@pytest.mark.parametrize(("group_version", "resource", "is_on"), ON_BY_DEFAULT.values(), ids=ON_BY_DEFAULT)
def test_what_is_served_by_default(group_version: str, resource: str, is_on: bool) -> None:
    assert life(group_version, resource).is_on_by_default is is_on
    assert BETA_OFF_SINCE == 22


WARNINGS: Final = {
    "before it is deprecated": ("networking.k8s.io/v1beta1", "ingresses", 18, None),
    "S05: with its end, and what to use instead": (
        *("networking.k8s.io/v1beta1", "ingresses", 19),
        "A is deprecated in v1.19+, unavailable in v1.22+; use networking.k8s.io/v1 Ingress",
    ),
    "what to use instead is what the release has": (
        *("autoscaling/v2beta1", "horizontalpodautoscalers", 22),
        "A is deprecated in v1.22+, unavailable in v1.25+; use autoscaling/v2beta2 HorizontalPodAutoscaler",
    ),
    "and later what it has then": (
        *("autoscaling/v2beta1", "horizontalpodautoscalers", 23),
        "A is deprecated in v1.22+, unavailable in v1.25+; use autoscaling/v2 HorizontalPodAutoscaler",
    ),
    "another kind": (
        *("v1", "endpoints", 36),
        "A is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    "Kubernetes tells no replacement": (
        *("events.k8s.io/v1beta1", "events", 22),
        "A is deprecated in v1.22+, unavailable in v1.25+",
    ),
    "never to be removed": ("v1", "componentstatuses", 36, "A is deprecated in v1.19+"),
}


@pytest.mark.parametrize(("version", "resource", "minor", "text"), WARNINGS.values(), ids=WARNINGS)
def test_what_clients_are_warned_of(version: str, resource: str, minor: int, text: str | None) -> None:
    found = life(version, resource).deprecation(minor, "k8s.io")
    assert (None if found is None else found.warning("A")) == text


_OLD: Final = "apps/v1beta1 {} is deprecated in v1.8+, unavailable in v1.16+"
OF_SUBRESOURCES: Final = {
    "the object itself": (
        "apps/v1beta1",
        "deployments",
        "",
        _OLD.format("Deployment") + "; use apps/v1 Deployment",
    ),
    "a view of it": (
        "apps/v1beta1",
        "deployments",
        "status",
        _OLD.format("Deployment") + "; use apps/v1 Deployment",
    ),
    "a kind of its own": (
        "apps/v1beta1",
        "deployments",
        "scale",
        _OLD.format("Scale") + "; use autoscaling/v1 Scale",
    ),
    "without a replacement": ("apps/v1beta1", "deployments", "rollback", _OLD.format("DeploymentRollback")),
    "of a version that stays": ("apps/v1", "deployments", "scale", ""),
    "that there is not": ("apps/v1", "deployments", "none", ""),
}


@cache
def served_in_1_15() -> ResourceTable:
    return Catalogue(Brand(), BuiltinSchemas((1, 36)), release=EmulatedRelease.of(15)).resources()


@pytest.mark.parametrize(
    ("version", "resource", "subresource", "text"), OF_SUBRESOURCES.values(), ids=OF_SUBRESOURCES
)
def test_subresources_are_deprecated_as_their_kinds_are(
    version: str, resource: str, subresource: str, text: str
) -> None:
    """Row S05. Source: k8s.io/apiserver, pkg/endpoints/installer.go."""
    group, _, name = version.rpartition("/")
    found = served_in_1_15().find(group, name, resource)
    assert found is not None
    assert found.deprecation_warning_of(subresource) == text
    assert found.deprecation_of(subresource) is None  # 1.15 does not tell


@pytest.mark.parametrize(("minor", "is_told"), [(15, False), (18, False), (19, True), (21, True)])
def test_s05_clients_are_told_since_1_19(minor: int, is_told: bool) -> None:
    table = Catalogue(Brand(), BuiltinSchemas((1, 36)), release=EmulatedRelease.of(minor)).resources()
    found = table.find("extensions", "v1beta1", "ingresses")
    assert found is not None
    assert found.deprecation is not None
    assert (found.deprecation_of("") is not None) is is_told
    assert (found.deprecation_of("status") is not None) is is_told


IN_WHICH: Final = {
    # Tags in k8s.io/api say that these came with the first version of their kinds, before they were there.
    ("discovery.k8s.io/v1beta1", "endpointslices"): 17,
    ("certificates.k8s.io/v1alpha1", "clustertrustbundles"): 27,
    ("networking.k8s.io/v1alpha1", "servicecidrs"): 29,
}


@pytest.mark.parametrize(("api", "introduced"), IN_WHICH.items(), ids=map(" ".join, IN_WHICH))
def test_a_version_comes_with_the_release_that_has_its_type(api: tuple[str, str], introduced: int) -> None:
    assert life(*api).introduced == introduced


def test_replacements_are_in_the_deployments_domain() -> None:
    found = life("v1", "endpoints").deprecation(36, "example.com")
    assert found is not None
    assert found.replacement == "discovery.example.com/v1 EndpointSlice"


# https://kubernetes.io/docs/reference/using-api/deprecation-policy/: the rules for parts of the API.


def test_a_version_is_replaced_by_one_that_is_as_stable() -> None:
    """Row S14, rule 3."""
    for each in LIVES:
        for replacement in each.replacements:
            found = lifecycle_of(*replacement)
            assert found is not None
            assert found.stability >= each.stability, each


def test_stable_versions_are_never_removed() -> None:
    """Row S12, rule 4a."""
    assert [each for each in LIVES if each.stability is Stability.GA and each.removed is not None] == []


# Beta versions that Kubernetes has kept for longer than its rule says.
KEPT_TOO_LONG: Final = {"certificates.k8s.io/v1beta1 clustertrustbundles"}


def test_beta_versions_are_deprecated_in_time() -> None:
    """Row S12, rule 4a: three releases after they were introduced, at most, since that is the rule: 1.19."""
    late = {
        f"{each.group_version} {each.resource}"
        for each in LIVES
        if each.stability is Stability.BETA
        and each.introduced >= 19
        and (each.deprecated is None or each.deprecated > each.introduced + 3)
    }
    assert late == KEPT_TOO_LONG


def test_deprecated_beta_versions_are_served_for_three_releases() -> None:
    """Row S12, rule 4a."""
    for each in LIVES:
        if each.stability is Stability.BETA and each.deprecated is not None:
            assert each.removed is None or each.removed >= each.deprecated + 3, each


def families() -> dict[tuple[str, str], list[Lifecycle]]:
    """All versions of each kind, the preferred ones first."""
    found: dict[tuple[str, str], list[Lifecycle]] = {}
    for each in LIVES:
        if "/" not in each.resource:
            found.setdefault((each.group, each.resource), []).append(each)
    for versions in found.values():
        versions.sort(key=lambda each: version_priority(each.version), reverse=True)
    return found


def test_what_a_release_stores_the_one_before_can_read() -> None:
    """Rule 4b: the storage version advances only after a release that has both."""
    for versions in families().values():
        for minor in RELEASES[1:]:
            stored = storage_version(versions, EmulatedRelease.of(minor))
            if stored is not None and any(each.is_in(minor) and each.is_in(minor - 1) for each in versions):
                assert stored.is_in(minor - 1), (minor, stored)


STORED: Final = {
    "the preferred one": ("apps", "deployments", 36, 35, "v1"),
    "not one that the release before does not have": ("networking.k8s.io", "ingresses", 19, 18, "v1beta1"),
    "a release later": ("networking.k8s.io", "ingresses", 20, 19, "v1"),
    "unless nobody has to go back": ("networking.k8s.io", "ingresses", 19, 19, "v1"),
    "for one that goes far back": ("autoscaling", "horizontalpodautoscalers", 24, 18, "v1"),
    "no alpha version if there is another": ("storage.k8s.io", "volumeattributesclasses", 31, 30, "v1alpha1"),
    "what is new": ("resource.k8s.io", "resourcepoolstatusrequests", 36, 35, "v1alpha3"),
    "what is not there yet": ("networking.k8s.io", "ipaddresses", 20, 19, None),
}


@pytest.mark.parametrize(("group", "resource", "minor", "compatible", "stored"), STORED.values(), ids=STORED)
def test_which_version_is_stored(
    group: str, resource: str, minor: int, compatible: int, stored: str | None
) -> None:
    found = storage_version(families()[group, resource], EmulatedRelease.of(minor, compatible))
    assert (None if found is None else found.version) == stored


def test_the_last_of_the_removed_versions() -> None:
    """What is removed later is among the types themselves: they are imported anyway."""
    gone = {each.removed for each in LIVES if each.removed}
    assert max(minor for minor in gone if minor <= REMOVED_BEFORE) == REMOVED_BEFORE


EMULATED: Final = {
    "the default": ((36, None), EmulatedRelease(36, 35)),
    "the oldest": ((15, None), EmulatedRelease(15, 14)),
    "with an older one": ((36, 33), EmulatedRelease(36, 33)),
    "alone": ((36, 36), EmulatedRelease(36, 36)),
    "too old": ((14, None), "emulation version 1.14 is not between 1.15 and 1.37"),
    "too new": ((38, None), "emulation version 1.38 is not between 1.15 and 1.37"),
    "compatible with the future": (
        (34, 35),
        "min compatibility version 1.35 is not between 1.14 and 1.34, the emulation version",
    ),
}


@pytest.mark.parametrize(("given", "expected"), EMULATED.values(), ids=EMULATED)
def test_releases_that_can_be_emulated(
    given: tuple[int, int | None], expected: EmulatedRelease | str
) -> None:
    if isinstance(expected, str):
        with pytest.raises(InvalidEmulation) as refused:
            EmulatedRelease.of(*given)
        assert str(refused.value) == expected
    else:
        assert EmulatedRelease.of(*given) == expected
    assert EmulatedRelease.of(DEFAULT_RELEASE.minor) == DEFAULT_RELEASE
