"""Types that are not served without a feature gate, whatever --runtime-config says. Rows H01, H09."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.releases.gates import FeatureGates
from apiserver.schema.builtin import BuiltinSchemas

ALL: Final = RuntimeConfig({"api/all": True})


def served(minor: int, *gates: str, runtime_config: RuntimeConfig = ALL) -> set[str]:
    catalogue = Catalogue(
        Brand(),
        BuiltinSchemas((1, 36)),
        release=EmulatedRelease.of(minor),
        gates=FeatureGates(minor, dict.fromkeys(gates, True)),
    )
    table = catalogue.resources(runtime_config)
    return {f"{each.api_version} {each.resource}" for each in table.resources}


# A release, the gates of a type, and the versions of its group that have it then.
GATES: Final = {
    "DynamicResourceAllocation": (
        *(32, ("DynamicResourceAllocation",), "resource.k8s.io", "resourceclaims"),
    ),
    "DynamicResourceAllocation, before there were devices": (
        *(30, ("DynamicResourceAllocation",), "resource.k8s.io", "resourceclasses"),
    ),
    "DRAControlPlaneController": (
        31,
        ("DynamicResourceAllocation", "DRAControlPlaneController"),
        "resource.k8s.io",
        "podschedulingcontexts",
    ),
    "GenericWorkload": (36, ("GenericWorkload",), "scheduling.k8s.io", "podgroups"),
    "GenericWorkload, at 1.37": (37, ("GenericWorkload",), "scheduling.k8s.io", "podgroups"),
    "CompositePodGroup": (
        37,
        ("CompositePodGroup", "GenericWorkload", "TopologyAwareWorkloadScheduling"),
        "scheduling.k8s.io",
        "compositepodgroups",
    ),
    "EvictionRequestAPI": (37, ("EvictionRequestAPI",), "lifecycle.k8s.io", "evictionrequests"),
    "EvictionRequestAPI, Evictions": (37, ("EvictionRequestAPI",), "lifecycle.k8s.io", "evictions"),
    "GenericWorkload, at 1.35": (35, ("GenericWorkload",), "scheduling.k8s.io", "workloads"),
    "DRADeviceTaints": (
        *(36, ("DRADeviceTaints", "DRADeviceTaintRules"), "resource.k8s.io", "devicetaintrules"),
    ),
    "DRADeviceTaints alone, before there was the other": (
        *(34, ("DRADeviceTaints",), "resource.k8s.io", "devicetaintrules"),
    ),
    "DRAResourcePoolStatus": (
        *(36, ("DRAResourcePoolStatus",), "resource.k8s.io", "resourcepoolstatusrequests"),
    ),
    "ClusterTrustBundle": (36, ("ClusterTrustBundle",), "certificates.k8s.io", "clustertrustbundles"),
    "PodCertificateRequest": (
        *(36, ("PodCertificateRequest",), "certificates.k8s.io", "podcertificaterequests"),
    ),
}


@pytest.mark.parametrize(("minor", "gates", "group", "resource"), GATES.values(), ids=GATES)
def test_both_are_needed(minor: int, gates: tuple[str, ...], group: str, resource: str) -> None:
    def versions(*given: str, runtime_config: RuntimeConfig = ALL) -> set[str]:
        found = served(minor, *given, runtime_config=runtime_config)
        return {each for each in found if each.startswith(f"{group}/") and each.endswith(f" {resource}")}

    assert versions(*gates)
    assert not versions()
    assert not versions(*gates, runtime_config=RuntimeConfig())


def test_stable_types_are_served_without_being_asked_for() -> None:
    found = served(37, runtime_config=RuntimeConfig())
    assert "certificates.k8s.io/v1 clustertrustbundles" in found
