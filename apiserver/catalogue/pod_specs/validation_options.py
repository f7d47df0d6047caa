"""The options of pod specs, by the feature gates of a server.

Source: pkg/api/pod, util.go, GetValidationOptionsFromPodSpecAndMeta. Stored specs may keep the options that
they use: see `ratcheting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from apiserver.meta.releases.gates import FeatureGates
from apiserver.schema.validation.addresses import STRICT_ADDRESSES


class PodValidationOptions(NamedTuple):
    """Options of pod specs: each field is True if its feature is allowed."""

    # Of a feature gate each: see `_GATES`.
    restart_rules: bool
    restart_all_containers: bool
    env_files: bool
    relaxed_env_names: bool
    relaxed_dns_searches: bool
    sleep_of_zero: bool
    pod_level_resources: bool
    sidecar_resize_policy: bool
    label_keys_in_spread: bool
    merged_label_keys_in_spread: bool
    selinux_mount_option: bool
    toleration_comparisons: bool
    host_network_without_host_users: bool
    git_repos: bool
    any_deletion_cost: bool
    unusual_addresses: bool
    # Of no gate: allowed only where a stored spec has it.
    restart_for_resize_of_init_containers: bool = False
    devices_without_host_users: bool = False
    indivisible_huge_pages: bool = False
    invalid_values_in_pod_affinity: bool = False
    invalid_values_in_node_affinity: bool = False
    invalid_selectors_in_spread: bool = False
    non_local_token_paths: bool = False
    sysctls_of_host: bool = False


_GATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "restart_rules": "ContainerRestartRules",
        "restart_all_containers": "RestartAllContainersOnContainerExits",
        "env_files": "EnvFiles",
        "relaxed_env_names": "RelaxedEnvironmentVariableValidation",
        "relaxed_dns_searches": "RelaxedDNSSearchValidation",
        "sleep_of_zero": "PodLifecycleSleepActionAllowZero",
        "pod_level_resources": "PodLevelResources",
        "sidecar_resize_policy": "InPlacePodVerticalScaling",
        "label_keys_in_spread": "MatchLabelKeysInPodTopologySpread",
        "merged_label_keys_in_spread": "MatchLabelKeysInPodTopologySpreadSelectorMerge",
        "selinux_mount_option": "SELinuxMount",
        "toleration_comparisons": "TaintTolerationComparisonOperators",
        "host_network_without_host_users": "UserNamespacesHostNetworkSupport",
        "git_repos": "GitRepoVolumeDriver",
    }
)


def options_of(gates: FeatureGates) -> PodValidationOptions:
    """Returns the options of new pod specs."""
    states = {field: gates.is_on(gate) for field, gate in _GATES.items()}
    return PodValidationOptions(
        **states,
        any_deletion_cost=not gates.is_on("PodDeletionCost"),
        unusual_addresses=not gates.is_on(STRICT_ADDRESSES),
    )
