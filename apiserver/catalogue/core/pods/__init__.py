"""Pods. The fields of their specs, and of those of pod templates, are in `catalogue.pod_specs`.

rules        the rules that depend on the feature gates of a server
preparation  fills in new pods, and those that are assigned to a node
validation   checks single pods and new ones, and warns about discouraged fields of new ones
updates      checks changes of a pod, and of its ephemeral containers
status       checks changes of its status
resize       checks changes of its resources
qos          computes the quality-of-service class
columns      the columns of `kubectl get pods`
"""

from __future__ import annotations

from functools import partial
from typing import Final

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.core.pods.columns import COLUMNS, ENDED
from apiserver.catalogue.core.pods.preparation import prepare_pod_create
from apiserver.catalogue.core.pods.resize import prepare_resize, validate_resize
from apiserver.catalogue.core.pods.rules import pod_rules
from apiserver.catalogue.core.pods.status import prepare_pod_status, validate_pod_status, warn_pod_status
from apiserver.catalogue.core.pods.updates import (
    prepare_ephemeral_containers,
    validate_ephemeral_containers_update,
    validate_pod_update,
)
from apiserver.catalogue.core.pods.validation import validate_pod_create, warn_pod
from apiserver.catalogue.pod_specs.defaults import DEFAULTS
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document
from apiserver.registry import subresources
from apiserver.registry.field_getters import field_text, field_texts
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import STATUS_RESETS, Strategy, UpdateStrategy, keep_status


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = pod_rules(gates)
    return BuiltinType(
        "",
        "v1",
        "pods",
        "Pod",
        short_names=("po",),
        categories=("all",),
        subresources=(
            subresources.stream("attach", "PodAttachOptions"),
            Subresource("binding", verbs=("create",), kind="Binding", definition=subresources.BINDING),
            Subresource(
                "ephemeralcontainers",
                update=UpdateStrategy(
                    prepare_ephemeral_containers,
                    partial(validate_ephemeral_containers_update, rules),
                    writes=("spec.ephemeralContainers",),
                ),
            ),
            Subresource(
                "eviction",
                verbs=("create",),
                kind="Eviction",
                group_version=subresources.POLICY_V1,
                definition=subresources.EVICTION,
            ),
            subresources.stream("exec", "PodExecOptions"),
            Subresource("log", verbs=("get",)),
            subresources.stream("portforward", "PodPortForwardOptions"),
            subresources.proxy("PodProxyOptions"),
            Subresource(
                "resize",
                update=UpdateStrategy(partial(prepare_resize, rules), partial(validate_resize, rules)),
            ),
            status_subresource(
                partial(validate_pod_status, rules),
                prepare=prepare_pod_status,
                resets=(*STATUS_RESETS, "metadata.deletionTimestamp", "metadata.ownerReferences"),
                warn=warn_pod_status,
            ),
        ),
        defaults=DEFAULTS,
        # A pod in itself is checked together with what changes of it, in Kubernetes' order; a change of its
        # status leaves the former out.
        strategy=Strategy(
            prepare_create=partial(prepare_pod_create, rules),
            validate_create=partial(validate_pod_create, rules.specs),
            warn=partial(warn_pod, rules),
            update=UpdateStrategy(keep_status, partial(validate_pod_update, rules)),
            has_generation=True,
            grace_period_s=_grace_period_s,
            returns_deleted=True,
        ),
        columns=COLUMNS,
        selectable_fields={
            **field_texts(
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ),
            "spec.host": field_text("spec", "nodeName"),  # of clients from before v1
            "spec.hostNetwork": field_text("spec", "hostNetwork", default="false"),
        },
    )


_DEFAULT_GRACE_PERIOD_S: Final = 30


def _grace_period_s(document: Document, asked_s: int | None) -> int:
    """Returns the grace period of a deletion; 0 for a pod that has no node, or has ended."""
    spec = document.get("spec", {})
    if not spec.get("nodeName") or document.get("status", {}).get("phase") in ENDED:
        return 0
    grace_s = asked_s if asked_s is not None else spec.get("terminationGracePeriodSeconds")
    if grace_s is None:
        return _DEFAULT_GRACE_PERIOD_S
    return int(grace_s) if grace_s >= 0 else 1
