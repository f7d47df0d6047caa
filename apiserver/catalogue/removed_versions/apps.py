"""The group `apps` before v1. Source: see `workloads`. Rows T26-T29."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import CurrentTypes, hub_of, other_version
from apiserver.catalogue.removed_versions.workloads import (
    deployment_from_v1,
    deployment_to_v1,
    labels_of_template,
    old_deployment_strategy,
    old_strategy,
    with_old_scale,
)
from apiserver.registry.subresources import old_rollback
from apiserver.schema.validation.defaults import setting

_GROUP: Final = "apps"
_WORKLOADS: Final = ("daemonsets", "deployments", "replicasets", "statefulsets")


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    revisions = current[_GROUP, "controllerrevisions"]
    return (
        *(_v1beta2(current[_GROUP, resource]) for resource in _WORKLOADS),
        other_version(revisions, "v1beta2"),
        _deployment_of_v1beta1(current),
        _stateful_set_of_v1beta1(current),
        other_version(revisions, "v1beta1"),
    )


def _v1beta2(v1: BuiltinType) -> BuiltinType:
    return _of_apps(v1, "v1beta2", strategy=old_strategy(v1, selector_may_change=False))


def _deployment_of_v1beta1(current: CurrentTypes) -> BuiltinType:
    v1 = current[_GROUP, "deployments"]
    builtin = _of_apps(
        v1,
        "v1beta1",
        adds={"Deployment": labels_of_template, "DeploymentSpec": setting(revisionHistoryLimit=2)},
        strategy=old_deployment_strategy(v1),
        hub=hub_of(v1, deployment_to_v1, deployment_from_v1),
    )
    return replace(builtin, subresources=(*builtin.subresources, old_rollback(_GROUP, "v1beta1")))


def _stateful_set_of_v1beta1(current: CurrentTypes) -> BuiltinType:
    v1 = current[_GROUP, "statefulsets"]
    return _of_apps(
        v1,
        "v1beta1",
        adds={"StatefulSet": labels_of_template, "StatefulSetUpdateStrategy": setting(type="OnDelete")},
        strategy=old_strategy(v1, selector_may_change=False),
    )


def _of_apps(v1: BuiltinType, version: str, **changes: Any) -> BuiltinType:
    return other_version(
        v1, version, subresources=with_old_scale(v1.subresources, _GROUP, version), **changes
    )
