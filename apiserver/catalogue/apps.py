"""The group `apps`."""

from __future__ import annotations

from typing import Any, Final

from apiserver.catalogue.builtin_type import STATUS_SUBRESOURCE, BuiltinType, field
from apiserver.catalogue.workloads import POD_TEMPLATE_COLUMNS, clear_status, status_count
from apiserver.meta.table import AGE, Column, columns, path
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.vocabulary import Document

_PACKAGE: Final = "io.k8s.api.apps.v1."

_WORKLOAD: Final = Strategy(
    prepare_create=clear_status, update=UpdateStrategy(prepare=keep_status), has_generation=True
)


def types() -> tuple[BuiltinType, ...]:
    return (
        _apps(
            "deployments",
            "Deployment",
            short_names=("deploy",),
            columns=columns(
                Column("Ready", _ready, description="How many of the pods that are wanted are ready."),
                Column(
                    "Up-to-date",
                    status_count("updatedReplicas"),
                    description="How many pods have the template that is wanted now.",
                ),
                Column(
                    "Available",
                    status_count("availableReplicas"),
                    description="How many pods have been ready for long enough.",
                ),
                AGE,
                *POD_TEMPLATE_COLUMNS,
            ),
        ),
        _apps(
            "replicasets",
            "ReplicaSet",
            short_names=("rs",),
            columns=columns(
                Column(
                    "Desired",
                    path("spec", "replicas", default=1),
                    type="integer",
                    description="How many pods are wanted.",
                ),
                Column(
                    "Current",
                    status_count("replicas"),
                    type="integer",
                    description="How many pods there are.",
                ),
                Column(
                    "Ready",
                    status_count("readyReplicas"),
                    type="integer",
                    description="How many of the pods are ready.",
                ),
                AGE,
                *POD_TEMPLATE_COLUMNS,
            ),
            selectable_fields={"status.replicas": field("status", "replicas", default="0")},
        ),
    )


def _apps(resource: str, kind: str, **more: Any) -> BuiltinType:
    return BuiltinType(
        "apps",
        "v1",
        resource,
        kind,
        _PACKAGE + kind,
        categories=("all",),
        subresources=(STATUS_SUBRESOURCE,),
        strategy=_WORKLOAD,
        **more,
    )


def _ready(document: Document, now: float) -> str:
    ready = document.get("status", {}).get("readyReplicas", 0)
    return f"{ready}/{document.get('spec', {}).get('replicas', 1)}"
