"""Exceptions to rules of pod specs for updates: a rule that the stored spec breaks may stay broken.

An object may be older than a rule, or its gate may have been turned off since: then its other fields may
still change. Source: pkg/api/pod, util.go, GetValidationOptionsFromPodSpecAndMeta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from apiserver.catalogue.pod_specs.containers import relaxed_env_name, strict_env_name
from apiserver.catalogue.pod_specs.resource_requirements import is_huge_page_resource, is_multiple_of_page
from apiserver.catalogue.pod_specs.scheduling import (
    REQUIRED,
    pod_affinity_terms,
    validate_pod_selectors,
    validate_spread_keys,
)
from apiserver.catalogue.pod_specs.security_contexts import all_containers, host_field_of_sysctl
from apiserver.catalogue.pod_specs.validation_options import PodValidationOptions
from apiserver.catalogue.pod_specs.volumes import validate_local_path
from apiserver.meta import names
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at, items
from apiserver.schema.validation.label_selectors import label_selector

_InUse: TypeAlias = Callable[[Document], bool]


def ratcheted(options: PodValidationOptions, new: Document, old: Document) -> PodValidationOptions:
    """Returns the options, extended by those that the stored spec `old` uses."""
    found = {
        field: True for field, is_used in _IN_USE.items() if not getattr(options, field) and is_used(old)
    }
    if not options.relaxed_env_names and _relaxed_names(new) & _relaxed_names(old):
        found["relaxed_env_names"] = True
    if options.label_keys_in_spread:
        is_merged = options.merged_label_keys_in_spread
        if any(
            validate_spread_keys("", constraint, are_keys_merged=is_merged)
            for constraint in old.get("topologySpreadConstraints") or ()
            if "matchLabelKeys" in constraint
        ):
            found["merged_label_keys_in_spread"] = not is_merged
    return options._replace(**found) if found else options


def _containers(spec: Document) -> Iterator[Document]:
    return (container for _, container in all_containers("", spec))


def _has_restart_rules(spec: Document) -> bool:
    return any("restartPolicy" in container for container in spec.get("containers") or ()) or any(
        container.get("restartPolicy", "Always") != "Always" or container.get("restartPolicyRules")
        for container in spec.get("initContainers") or ()
    )


def _restarts_all_containers(spec: Document) -> bool:
    return any(
        rule.get("action") == "RestartAllContainers"
        for container in _containers(spec)
        for rule in container.get("restartPolicyRules") or ()
    ) or any(
        container.get("restartPolicy") == "Always" and container.get("restartPolicyRules")
        for container in spec.get("initContainers") or ()
    )


def _has_env_files(spec: Document) -> bool:
    return any(
        at(variable, "valueFrom", "fileKeyRef") is not None
        for container in _containers(spec)
        for variable in container.get("env") or ()
    )


def _relaxed_names(spec: Document) -> set[str]:
    """Returns the names of variables, and their prefixes, that only the relaxed rule allows."""
    found = {
        item.get(key, "")
        for container in _containers(spec)
        for field, key in (("env", "name"), ("envFrom", "prefix"))
        for item in container.get(field) or ()
    }
    return {name for name in found if strict_env_name(name) and not relaxed_env_name(name)}


def _has_relaxed_searches(spec: Document) -> bool:
    return any(each == "." or "_" in each for each in at(spec, "dnsConfig", "searches") or ())


def _sleeps_for_nothing(spec: Document) -> bool:
    return any(
        at(container, "lifecycle", moment, "sleep", "seconds") == 0
        for container in _containers(spec)
        for moment in ("preStop", "postStart")
    )


def _sidecars_have_resize_policies(spec: Document) -> bool:
    return any(
        container.get("restartPolicy") == "Always" and container.get("resizePolicy")
        for container in spec.get("initContainers") or ()
    )


def _init_containers_restart_for_resize(spec: Document) -> bool:
    return any(
        policy.get("restartPolicy") == "RestartContainer"
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") != "Always"
        for policy in container.get("resizePolicy") or ()
    )


def _compares_numbers(spec: Document) -> bool:
    return any(each.get("operator") in ("Lt", "Gt") for each in spec.get("tolerations") or ())


def _has_own_users(spec: Document) -> bool:
    return not spec.get("hostUsers", True)


def _has_indivisible_huge_pages(spec: Document) -> bool:
    amounts: list[dict[str, Any]] = [spec.get("overhead") or {}]
    for container in _containers(spec):
        resources = container.get("resources") or {}
        amounts += [resources.get(field) or {} for field in ("limits", "requests")]
    return any(
        is_huge_page_resource(name) and not is_multiple_of_page(name, value)
        for each in amounts
        for name, value in each.items()
    )


def _has_invalid_pod_values(spec: Document) -> bool:
    return any(
        validate_pod_selectors("", term, any_values=False)
        for _, term in pod_affinity_terms("", spec.get("affinity") or {})
    )


def _has_invalid_node_values(spec: Document) -> bool:
    terms = at(spec, "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms") or ()
    return any(
        names.label_value(value)
        for term in terms
        for expression in term.get("matchExpressions") or ()
        for value in expression.get("values") or ()
    )


def _has_invalid_spread_selectors(spec: Document) -> bool:
    constraints = spec.get("topologySpreadConstraints") or ()
    return any(label_selector("", constraint.get("labelSelector")) for constraint in constraints)


def _has_non_local_token_paths(spec: Document) -> bool:
    return any(
        validate_local_path("", source["serviceAccountToken"].get("path", ""))
        for _, volume in items(spec, "volumes", "")
        for source in at(volume, "projected", "sources") or ()
        if source.get("serviceAccountToken") is not None
    )


def _sets_sysctls_of_host(spec: Document) -> bool:
    sysctls = at(spec, "securityContext", "sysctls") or ()
    return any(host_field_of_sysctl(sysctl.get("name", ""), spec) for sysctl in sysctls)


# What else a spec has that needs an option, by the option's name.
_IN_USE: Final[Mapping[str, _InUse]] = MappingProxyType(
    {
        "restart_rules": _has_restart_rules,
        "restart_all_containers": _restarts_all_containers,
        "env_files": _has_env_files,
        "relaxed_dns_searches": _has_relaxed_searches,
        "sleep_of_zero": _sleeps_for_nothing,
        "sidecar_resize_policy": _sidecars_have_resize_policies,
        "selinux_mount_option": lambda spec: at(spec, "securityContext", "seLinuxChangePolicy") is not None,
        "toleration_comparisons": _compares_numbers,
        "host_network_without_host_users": lambda spec: (
            _has_own_users(spec) and bool(spec.get("hostNetwork"))
        ),
        "restart_for_resize_of_init_containers": _init_containers_restart_for_resize,
        "devices_without_host_users": lambda spec: (
            _has_own_users(spec) and any(each.get("volumeDevices") for each in _containers(spec))
        ),
        "indivisible_huge_pages": _has_indivisible_huge_pages,
        "invalid_values_in_pod_affinity": _has_invalid_pod_values,
        "invalid_values_in_node_affinity": _has_invalid_node_values,
        "invalid_selectors_in_spread": _has_invalid_spread_selectors,
        "non_local_token_paths": _has_non_local_token_paths,
        "sysctls_of_host": _sets_sysctls_of_host,
    }
)
