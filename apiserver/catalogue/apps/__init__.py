"""The group `apps`."""

from __future__ import annotations

from typing import Any, Final

from apiserver.catalogue.apps import controller_revisions, daemon_sets, deployments, stateful_sets
from apiserver.catalogue.builtin_type import BuiltinType, field
from apiserver.catalogue.common.workloads import validate_selector_update
from apiserver.catalogue.pod_specs.templates import (
    POD_TEMPLATE_COLUMNS,
    clear_status,
    pod_template_columns,
    status_count,
    with_template_warnings,
)
from apiserver.catalogue.subresources import SCALE_SUBRESOURCE
from apiserver.meta import names
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status, only_status
from apiserver.vocabulary import Document

_PACKAGE: Final = "io.k8s.api.apps.v1."
_TEMPLATE: Final = ("spec", "template")


def types() -> tuple[BuiltinType, ...]:
    return (
        BuiltinType(
            "apps",
            "v1",
            "controllerrevisions",
            "ControllerRevision",
            _PACKAGE + "ControllerRevision",
            strategy=Strategy(
                validate=controller_revisions.validate_controller_revision,
                update=UpdateStrategy(validate=controller_revisions.validate_controller_revision_update),
            ),
            columns=columns(
                Column("Controller", _controller, description="The object whose state this was."),
                Column(
                    "Revision",
                    field_cell("revision", default=0),
                    description="The number of the state.",
                ),
                AGE,
            ),
        ),
        _daemon_sets(),
        _deployments(),
        _replica_sets(),
        _stateful_sets(),
    )


def _daemon_sets() -> BuiltinType:
    return _apps(
        "daemonsets",
        "DaemonSet",
        short_names=("ds",),
        strategy=Strategy(
            prepare_create=daemon_sets.prepare_daemon_set_create,
            validate=daemon_sets.validate_daemon_set,
            warn=with_template_warnings(*_TEMPLATE),
            update=UpdateStrategy(
                prepare=daemon_sets.prepare_daemon_set_update, validate=validate_selector_update
            ),
            has_generation=True,
        ),
        subresources=(
            _status(
                UpdateStrategy(
                    prepare=daemon_sets.prepare_daemon_set_status_update,
                    validate=daemon_sets.validate_daemon_set_status_update,
                )
            ),
        ),
        columns=columns(
            _count("Desired", "desiredNumberScheduled", "On how many nodes a pod is wanted."),
            _count("Current", "currentNumberScheduled", "On how many of these nodes there is one."),
            _count("Ready", "numberReady", "On how many of these nodes it is ready."),
            _count("Up-to-date", "updatedNumberScheduled", "On how many nodes it has the template of now."),
            _count("Available", "numberAvailable", "On how many nodes it has been ready for long enough."),
            Column("Node Selector", _node_selector, description="The labels of nodes that get a pod."),
            AGE,
            *POD_TEMPLATE_COLUMNS,
        ),
    )


def _deployments() -> BuiltinType:
    return _apps(
        "deployments",
        "Deployment",
        short_names=("deploy",),
        strategy=Strategy(
            prepare_create=clear_status,
            validate=deployments.validate_deployment,
            warn=with_template_warnings(*_TEMPLATE, warn=deployments.warn_named_after),
            update=UpdateStrategy(
                prepare=deployments.prepare_deployment_update, validate=validate_selector_update
            ),
            has_generation=True,
        ),
        subresources=(
            _status(
                UpdateStrategy(prepare=only_status, validate=deployments.validate_deployment_status_update)
            ),
            SCALE_SUBRESOURCE,
        ),
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
    )


def _replica_sets() -> BuiltinType:
    return _apps(
        "replicasets",
        "ReplicaSet",
        short_names=("rs",),
        strategy=Strategy(
            prepare_create=deployments.prepare_replica_set_create,
            validate=deployments.validate_replica_set,
            warn=with_template_warnings(*_TEMPLATE, warn=deployments.warn_named_after),
            update=UpdateStrategy(prepare=keep_status, validate=validate_selector_update),
            has_generation=True,
        ),
        subresources=(
            _status(
                UpdateStrategy(prepare=only_status, validate=deployments.validate_replica_set_status_update)
            ),
            SCALE_SUBRESOURCE,
        ),
        columns=columns(
            Column(
                "Desired",
                field_cell("spec", "replicas", default=1),
                type="integer",
                description="How many pods are wanted.",
            ),
            _count("Current", "replicas", "How many pods there are."),
            _count("Ready", "readyReplicas", "How many of the pods are ready."),
            AGE,
            *POD_TEMPLATE_COLUMNS,
        ),
        selectable_fields={"status.replicas": field("status", "replicas", default="0")},
    )


def _stateful_sets() -> BuiltinType:
    return _apps(
        "statefulsets",
        "StatefulSet",
        short_names=("sts",),
        strategy=Strategy(
            name_rule=names.dns_label,
            prepare_create=stateful_sets.prepare_stateful_set_create,
            validate=stateful_sets.validate_stateful_set,
            validate_create=stateful_sets.validate_stateful_set_create,
            warn=with_template_warnings(*_TEMPLATE, warn=stateful_sets.warn_stateful_set),
            update=UpdateStrategy(
                prepare=stateful_sets.prepare_stateful_set_update,
                validate=stateful_sets.validate_stateful_set_update,
            ),
            has_generation=True,
        ),
        subresources=(
            _status(
                UpdateStrategy(
                    prepare=only_status, validate=stateful_sets.validate_stateful_set_status_update
                )
            ),
            SCALE_SUBRESOURCE,
        ),
        columns=columns(
            Column("Ready", _ready, description="How many of the pods that are wanted are ready."),
            AGE,
            *pod_template_columns(*_TEMPLATE, has_selector=False),
        ),
    )


def _apps(resource: str, kind: str, **more: Any) -> BuiltinType:
    return BuiltinType("apps", "v1", resource, kind, _PACKAGE + kind, categories=("all",), **more)


def _status(update: UpdateStrategy) -> Subresource:
    return Subresource("status", update=update)


# ---- cells


def _count(name: str, status_field: str, description: str) -> Column:
    return Column(name, status_count(status_field), type="integer", description=description)


def _ready(document: Document, now: float) -> str:
    ready = document.get("status", {}).get("readyReplicas", 0)
    return f"{ready}/{document.get('spec', {}).get('replicas', 1)}"


def _node_selector(document: Document, now: float) -> str:
    spec = document.get("spec", {}).get("template", {}).get("spec") or {}
    labels = spec.get("nodeSelector") or {}
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>"


def _controller(document: Document, now: float) -> str:
    owners = document["metadata"].get("ownerReferences") or ()
    owner = next((owner for owner in owners if owner.get("controller")), None)
    if owner is None:
        return "<none>"
    group = owner.get("apiVersion", "").rpartition("/")[0]
    kind = f"{owner.get('kind', '')}.{group}" if group else owner.get("kind", "")
    return f"{kind.lower()}/{owner.get('name', '')}"
