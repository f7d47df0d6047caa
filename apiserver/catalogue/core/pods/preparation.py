"""Preparation of pods: of new ones, and of those that are assigned to a node.

Source: pkg/registry/core/pod, strategy.go.
"""

from __future__ import annotations

from apiserver.catalogue.core.pods.qos import qos_class
from apiserver.catalogue.core.pods.rules import PodRules
from apiserver.catalogue.pod_specs import pod_annotations
from apiserver.catalogue.pod_specs.scheduling import merge_label_keys
from apiserver.catalogue.pod_specs.security_contexts import all_containers
from apiserver.meta.conditions import replace_condition
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at


def prepare_pod_create(rules: PodRules, pod: Document) -> list[str]:
    """Fills in a new pod. Returns warnings about annotations that are now fields."""
    spec, meta = pod["spec"], pod["metadata"]
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": meta.get("creationTimestamp"),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    merge_label_keys(
        spec,
        meta.get("labels") or {},
        in_affinity=rules.merges_keys_in_affinity,
        in_spread=rules.merges_keys_in_spread,
    )
    return _take_app_armor_annotations(spec, meta.get("annotations") or {})


def _take_app_armor_annotations(spec: Document, annotations: Document) -> list[str]:
    """Copies AppArmor profiles from annotations, which older clients set, to the fields that nodes read.

    Returns warnings about annotations that were copied, or could not be.
    """
    warnings: list[str] = []
    if not pod_annotations.mentions(annotations, pod_annotations.APP_ARMOR):
        return warnings
    if at(spec, "os", "name") == "windows":
        return warnings
    for _, container in all_containers("", spec):
        key = pod_annotations.APP_ARMOR + container.get("name", "")
        if key not in annotations or at(container, "securityContext", "appArmorProfile") is not None:
            continue
        profile = pod_annotations.app_armor_profile(annotations[key])
        if profile is not None:
            if profile == at(spec, "securityContext", "appArmorProfile"):
                continue
            container.setdefault("securityContext", {})["appArmorProfile"] = profile
        warnings.append(f"metadata.annotations[{key}]: {pod_annotations.APP_ARMOR_TEXT}")
    return warnings


def assign_node(pod: Document, node: str, now: str, *, clears_nomination: bool) -> None:
    """Assign a pod to a node, by a binding or by the simulated scheduler. now: as documents have it.

    clears_nomination: whether to remove the nominated node (ClearingNominatedNodeNameAfterBinding). Source:
    pkg/registry/core/pod/storage, setPodNodeAndMetadata.
    """
    pod["spec"]["nodeName"] = node
    # Why it was not scheduled before is over.
    replace_condition(pod, {"type": "PodScheduled", "status": "True", "lastProbeTime": None}, now)
    if clears_nomination:
        pod["status"].pop("nominatedNodeName", None)
