"""The group `extensions`, all of whose types have moved to other groups.

Source: pkg/apis/extensions/v1beta1 (conversion.go, defaults.go; release 1.15). Rows T20, T25-T27, T29, T30.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType, HubConversion
from apiserver.catalogue.common.other_versions import CurrentTypes, hub_of
from apiserver.catalogue.removed_versions import pod_security_policies
from apiserver.catalogue.removed_versions.networking import ingress_of_v1beta1
from apiserver.catalogue.removed_versions.workloads import (
    INT32_MAX,
    daemon_set_from_v1,
    daemon_set_to_v1,
    deployment_from_v1,
    deployment_to_v1,
    labels_of_template,
    old_deployment_strategy,
    old_strategy,
    with_old_scale,
)
from apiserver.meta.vocabulary import Document
from apiserver.registry.subresources import old_rollback
from apiserver.schema.validation.defaults import in_turn, setting

_GROUP: Final = "extensions"
_VERSION: Final = "v1beta1"
_PACKAGE: Final = "io.k8s.api.extensions.v1beta1."
_APPS: Final = "io.k8s.api.apps.v1."


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    ingresses = ingress_of_v1beta1(current)
    assert ingresses.hub is not None
    network_policies = current["networking.", "networkpolicies"]
    return (
        _daemon_set(current["apps", "daemonsets"]),
        _deployment(current["apps", "deployments"]),
        _in_extensions(ingresses, ingresses.hub),
        _in_extensions(network_policies, hub_of(network_policies)),
        _in_extensions(pod_security_policies.BUILTIN_TYPE, hub_of(pod_security_policies.BUILTIN_TYPE)),
        _replica_set(current["apps", "replicasets"]),
    )


def _daemon_set(v1: BuiltinType) -> BuiltinType:
    return _workload(
        v1,
        hub_of(v1, daemon_set_to_v1, daemon_set_from_v1),
        # The hub's default is the annotation that this version has a field for.
        defaults={
            f"{_PACKAGE}DaemonSet": labels_of_template,
            f"{_PACKAGE}DaemonSetSpec": setting(revisionHistoryLimit=10),
            f"{_PACKAGE}DaemonSetUpdateStrategy": in_turn(
                setting(type="OnDelete"), v1.defaults[f"{_APPS}DaemonSetUpdateStrategy"]
            ),
        },
    )


def _deployment(v1: BuiltinType) -> BuiltinType:
    deployments = _workload(
        v1,
        hub_of(v1, deployment_to_v1, deployment_from_v1),
        defaults={
            f"{_PACKAGE}Deployment": labels_of_template,
            f"{_PACKAGE}DeploymentSpec": setting(
                replicas=1, revisionHistoryLimit=INT32_MAX, progressDeadlineSeconds=INT32_MAX
            ),
            f"{_PACKAGE}DeploymentStrategy": _complete_deployment_strategy,
        },
        strategy=old_deployment_strategy(v1),
    )
    return replace(deployments, subresources=(*deployments.subresources, old_rollback(_GROUP, _VERSION)))


def _complete_deployment_strategy(strategy: Document) -> None:
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 1)


def _replica_set(v1: BuiltinType) -> BuiltinType:
    return _workload(
        v1,
        hub_of(v1),
        defaults={
            f"{_PACKAGE}ReplicaSet": labels_of_template,
            f"{_PACKAGE}ReplicaSetSpec": v1.defaults[f"{_APPS}ReplicaSetSpec"],
        },
    )


def _workload(v1: BuiltinType, hub: HubConversion, **changes: Any) -> BuiltinType:
    changes = {
        "strategy": old_strategy(v1, selector_may_change=True),
        "subresources": with_old_scale(v1.subresources, _GROUP, _VERSION),
        **changes,
    }
    return _in_extensions(v1, hub, **changes)


def _in_extensions(other: BuiltinType, hub: HubConversion, **changes: Any) -> BuiltinType:
    """Returns a type of another group in this one, where its definitions have the same names.

    changes: attributes of `BuiltinType` that differ.
    """
    package, _, kind = other.definition.rpartition(".")
    defaults = {
        f"{_PACKAGE}{name.rpartition('.')[2]}" if name.rpartition(".")[0] == package else name: default
        for name, default in other.defaults.items()
    }
    changes = {"definition": f"{_PACKAGE}{kind}", "defaults": defaults, **changes}
    return replace(other, group=_GROUP, version=_VERSION, hub=hub, **changes)
