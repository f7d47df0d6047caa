"""The rules of pods that depend on the feature gates of a server."""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.catalogue.pod_specs.validation import PodSpecRules, rules_of
from apiserver.meta.releases.gates import FeatureGates

CLEARING_GATE: Final = "ClearingNominatedNodeNameAfterBinding"


class PodRules(NamedTuple):
    """The rules of pod specs, and other rules of pods that depend on gates.

    resizes_pods: whether pod-level resources may change. resizes_init_containers: whether resources of init
    containers that are not sidecars may change. clears_nomination: whether a pod with a node loses its
    nominated node.
    checks_image_digests: whether to check digests of mounted images in statuses of containers.
    merges_keys_in_affinity, merges_keys_in_spread: whether matchLabelKeys become part of the selectors next
        to them.
    """

    specs: PodSpecRules
    resizes_pods: bool
    resizes_init_containers: bool
    clears_nomination: bool
    checks_image_digests: bool
    merges_keys_in_affinity: bool
    merges_keys_in_spread: bool


def pod_rules(gates: FeatureGates) -> PodRules:
    specs = rules_of(gates)
    return PodRules(
        specs=specs,
        resizes_pods=gates.is_on("InPlacePodLevelResourcesVerticalScaling"),
        resizes_init_containers=gates.is_on("InPlacePodVerticalScalingInitContainers"),
        clears_nomination=gates.is_on(CLEARING_GATE),
        checks_image_digests=gates.is_on("ImageVolumeWithDigest"),
        merges_keys_in_affinity=gates.is_on("MatchLabelKeysInPodAffinity"),
        merges_keys_in_spread=specs.options.label_keys_in_spread
        and specs.options.merged_label_keys_in_spread,
    )
