"""Feature gates; rows H09, S08. Source: k8s.io/component-base, featuregate/feature_gate.go."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.meta.releases.emulation import NEWEST_MINOR, OLDEST_MINOR
from apiserver.meta.releases.gates import (
    ALPHA,
    BETA,
    DEPRECATED,
    STABLE,
    FeatureGates,
    GateStage,
    InvalidGates,
    known_gates,
)

RELEASE: Final = 36

STAGES: Final = {
    "before it was there": ("ConstrainedImpersonation", 34, None),
    "alpha": ("ConstrainedImpersonation", 35, GateStage(35, ALPHA, is_on=False)),
    "beta": ("ConstrainedImpersonation", 36, GateStage(36, BETA, is_on=True)),
    "beta, and off again": ("WatchList", 33, GateStage(33, BETA, is_on=False)),
    "stable, and locked": (
        "DynamicResourceAllocation",
        36,
        GateStage(35, STABLE, is_on=True, is_locked=True),
    ),
    "deprecated": ("KMSv1", 36, GateStage(29, DEPRECATED, is_on=False)),
    "off, on and off, and on at last": ("MaxUnavailableStatefulSet", 36, GateStage(36, BETA, is_on=False)),
    "alpha in 1.37": ("EmptyDirVolumeMode", 37, GateStage(37, ALPHA, is_on=False)),
    "on since 1.37": ("HPAScaleToZero", 37, GateStage(37, BETA, is_on=True)),
    "not before it": ("HPAScaleToZero", 36, GateStage(16, ALPHA, is_on=False)),
    "locked in 1.37": ("NodeDeclaredFeatures", 37, GateStage(37, STABLE, is_on=True, is_locked=True)),
    "removed in 1.37": ("PreventStaticPodAPIReferences", 37, None),
    "long ago": ("CSIMigration", 16, GateStage(15, ALPHA, is_on=False)),
    "in the last release that had it": (
        "CSIMigration",
        26,
        GateStage(25, STABLE, is_on=True, is_locked=True),
    ),
    "removed": ("CSIMigration", 27, None),
    "removed before any release that can be emulated": ("Accelerators", 15, None),
    "later than that": ("MutatingAdmissionPolicy", 40, GateStage(36, STABLE, is_on=True)),
}


@pytest.mark.parametrize(("name", "minor", "stage"), STAGES.values(), ids=STAGES)
def test_the_stage_of_a_gate_in_a_release(name: str, minor: int, stage: GateStage | None) -> None:
    assert known_gates()[name].stage(minor) == stage


def test_every_life_goes_forward() -> None:
    """https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/#feature-stages"""
    order = [ALPHA, BETA, STABLE, DEPRECATED]
    assert len(known_gates()) > 400
    assert list(known_gates()) == sorted(known_gates())
    for gate in known_gates().values():
        releases = [stage.since for stage in gate.life] + ([] if gate.removed is None else [gate.removed])
        assert releases == sorted(set(releases)), gate.name
        ranks = [order.index(stage.name) for stage in gate.life]
        assert ranks == sorted(ranks), gate.name
        assert all(not stage.is_on for stage in gate.life if stage.name == ALPHA), gate.name
        assert set(gate.needs) <= known_gates().keys() - {gate.name}, gate.name


@pytest.mark.parametrize("minor", range(OLDEST_MINOR, NEWEST_MINOR + 1))
def test_what_is_on_by_default_contradicts_itself_in_no_release(minor: int) -> None:
    gates = FeatureGates(minor)
    assert gates.warnings == ()
    assert all(not is_on for _, stage, is_on in gates.states() if stage == ALPHA), "row S08"


def test_one_gate() -> None:
    gates = FeatureGates(RELEASE, {"CBORServingAndStorage": True})
    assert gates.is_on("CBORServingAndStorage")
    assert not gates.is_default("CBORServingAndStorage")
    assert not FeatureGates(RELEASE).is_on("CBORServingAndStorage")


def test_all_of_a_stage_but_those_that_are_named() -> None:
    gates = FeatureGates(RELEASE, {"AllBeta": False, "WatchList": True})
    states = {name: is_on for name, stage, is_on in gates.states() if stage == BETA}
    assert [name for name, is_on in states.items() if is_on] == ["WatchList"]
    both = FeatureGates(RELEASE, {"AllAlpha": True, "AllBeta": True})
    assert all(is_on for _, stage, is_on in both.states() if stage in (ALPHA, BETA))
    assert not both.is_on("KMSv1")


REFUSED: Final = {
    "H09 one that nobody knows": ({"Other": True}, "unrecognized feature gate: Other"),
    "H09 one that was removed": (
        {"EphemeralContainers": True},
        "unrecognized feature gate: EphemeralContainers, which Kubernetes 1.27 has removed",
    ),
    "H09 one that the release has removed itself": (
        {"StructuredAuthorizationConfiguration": True},
        "unrecognized feature gate: StructuredAuthorizationConfiguration, which Kubernetes 1.36 has removed",
    ),
    "H09 a stable one that is locked": (
        {"DynamicResourceAllocation": False},
        "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
    ),
    "a deprecated one that is locked": (
        {"SeparateCacheWatchRPC": True},
        "cannot set feature gate SeparateCacheWatchRPC to true, feature is locked to false",
    ),
    "one that needs another": (
        {"GangScheduling": True},
        "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
    ),
    "one that others need": (
        {"NodeDeclaredFeatures": False, "ExtendWebSocketsToKubelet": False},
        (
            "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: "
            "[NodeDeclaredFeatures]"
        ),
    ),
}


@pytest.mark.parametrize(("given", "text"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_set(given: dict[str, bool], text: str) -> None:
    with pytest.raises(InvalidGates) as raised:
        FeatureGates(RELEASE, given)
    assert str(raised.value) == text


OLD_RELEASES: Final = {
    "alpha, and off": (24, {}, "CSINodeExpandSecret", None),
    "beta, and on": (24, {}, "EphemeralContainers", True),
    "beta, and off": (24, {"EphemeralContainers": False}, "EphemeralContainers", False),
    "beta, with all of them": (24, {"AllBeta": False}, "EphemeralContainers", False),
    "alpha, with all of them": (22, {"AllAlpha": True}, "EphemeralContainers", True),
    "stable, and not locked yet": (24, {"ExpandCSIVolumes": False}, "ExpandCSIVolumes", False),
    "stable, and locked": (24, {"SuspendJob": False}, "SuspendJob", "feature is locked to true"),
    "not there yet": (22, {"JobReadyPods": True}, "", "is PreAlpha at emulated version 1.22"),
    "gone before": (24, {"EvenPodsSpread": True}, "", "which Kubernetes 1.21 has removed"),
}


@pytest.mark.parametrize(("minor", "given", "name", "expected"), OLD_RELEASES.values(), ids=OLD_RELEASES)
def test_s08_gates_that_were_removed_are_there_in_releases_that_had_them(
    minor: int, given: dict[str, bool], name: str, expected: bool | str | None
) -> None:
    if isinstance(expected, str):
        with pytest.raises(InvalidGates, match=expected):
            FeatureGates(minor, given)
        return
    gates = FeatureGates(minor, given)
    states = {name: is_on for name, _, is_on in gates.states()}
    assert states.get(name) is expected
    assert gates.is_on(name) is bool(expected)


def test_what_a_removed_gate_switched_stays_as_it_was() -> None:
    gates = FeatureGates(RELEASE)
    assert gates.is_on("ServerSideApply")
    assert not gates.is_on("PodHasNetworkCondition")
    assert not gates.is_on("Accelerators")
    assert "ServerSideApply" not in {name for name, _, _ in gates.states()}


def test_a_gate_of_a_later_release() -> None:
    with pytest.raises(InvalidGates, match=r"feature is PreAlpha at emulated version 1\.34"):
        FeatureGates(34, {"ConstrainedImpersonation": True})


def test_help() -> None:
    """Those that are locked cannot be set, and are not told."""
    names = ["CBORServingAndStorage", "WatchList", "KMSv1", "MemoryManager", "DeclarativeValidation"]
    told = FeatureGates(RELEASE).described(names)
    assert told == [
        "CBORServingAndStorage=true|false (ALPHA - default=false)",
        "WatchList=true|false (BETA - default=true)",
        "KMSv1=true|false (DEPRECATED - default=false)",
        "DeclarativeValidation=true|false (GA - default=true)",
    ]


def test_what_needs_gates_that_a_release_does_not_have_is_not_kept_from_it() -> None:
    gates = FeatureGates(34, {"DRADeviceTaints": True})
    assert gates.allow(("DRADeviceTaints", "DRADeviceTaintRules"))
    assert not gates.allow(("DRADeviceTaints", "ClusterTrustBundle"))
    assert gates.allow(())
