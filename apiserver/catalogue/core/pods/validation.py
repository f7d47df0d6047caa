"""Pods: what is set in new ones, and what is checked of them.

Source: pkg/registry/core/pod, strategy.go, and pkg/apis/core/validation, ValidatePodCreate. What may change
of pods is in `pod_updates`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from apiserver.catalogue.pod_specs import defaults, pod_annotations
from apiserver.catalogue.pod_specs.containers import validate_pod_image
from apiserver.catalogue.pod_specs.scheduling import merge_label_keys
from apiserver.catalogue.pod_specs.security_contexts import all_containers
from apiserver.catalogue.pod_specs.validation import validate_spec
from apiserver.catalogue.pod_specs.warnings import pod_warnings
from apiserver.field_errors import forbidden
from apiserver.meta import names
from apiserver.validation.checks import Errors, at, items, quantity_of
from apiserver.vocabulary import Document

DEFAULTS: Final = defaults.DEFAULTS


# ---- new pods


def prepare_pod_create(pod: Document) -> None:
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
    merge_label_keys(spec, meta.get("labels") or {})
    _take_app_armor_annotations(spec, meta.get("annotations") or {})


def _take_app_armor_annotations(spec: Document, annotations: Document) -> None:
    """What older clients say in annotations nodes read in fields."""
    if not pod_annotations.mentions(annotations, pod_annotations.APP_ARMOR):
        return
    if at(spec, "os", "name") == "windows":
        return
    for _, container in all_containers("", spec):
        annotation = annotations.get(pod_annotations.APP_ARMOR + container.get("name", ""))
        if annotation is None or at(container, "securityContext", "appArmorProfile") is not None:
            continue
        profile = pod_annotations.app_armor_profile(annotation)
        if profile is not None and profile != at(spec, "securityContext", "appArmorProfile"):
            container.setdefault("securityContext", {})["appArmorProfile"] = profile


_OF_QOS: Final = ("cpu", "memory")
_NOTHING: Final = Decimal(0)


def qos_class(spec: Document) -> str:
    """How early a pod has to go when its node runs out of something.

    Source: pkg/apis/core/helper/qos, ComputePodQOS.
    """
    own = spec.get("resources")
    all_resources = (
        [own]
        if own is not None
        else [
            container["resources"]
            for field in ("containers", "initContainers")
            for container in spec.get(field) or ()
        ]
    )
    totals: dict[str, dict[str, Decimal]] = {"requests": {}, "limits": {}}
    is_guaranteed = True
    for resources in all_resources:
        for field, total in totals.items():
            amounts = resources.get(field) or {}
            for name in _OF_QOS:
                asked = amounts.get(name)
                if asked is not None and (amount := quantity_of(asked).value) > 0:
                    total[name] = total.get(name, _NOTHING) + amount
                elif field == "limits":
                    is_guaranteed = False
        if not is_guaranteed and (totals["requests"] or totals["limits"]):
            return "Burstable"
    if not totals["requests"] and not totals["limits"]:
        return "BestEffort"
    return "Guaranteed" if totals["requests"] == totals["limits"] else "Burstable"


def validate_pod_create(pod: Document) -> Errors:
    spec, annotations = pod["spec"], pod["metadata"].get("annotations") or {}
    errors = validate_pod(pod)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", text))
    if pod_annotations.mentions(annotations, pod_annotations.OF_PROFILES):
        errors += pod_annotations.validate_seccomp_fields(annotations, "spec", spec)
        errors += pod_annotations.validate_app_armor_fields(annotations, "spec", spec)
    return errors


def warn_pod(new: Document, old: Document | None) -> list[str]:
    """Of new pods only: those who change pods are programs."""
    if old is not None:
        return []
    warnings = []
    if problems := names.dns_label(new["metadata"].get("name", "")):
        text = "this is used in the Pod's hostname, which can result in surprising behavior"
        listed = " ".join(problems)
        warnings.append(f"metadata.name: {text}; a DNS label is recommended: [{listed}]")
    return warnings + pod_warnings("", new)


# ---- all pods


def validate_pod(pod: Document) -> Errors:
    """A pod in itself, without its metadata. Source: validatePodMetadataAndSpec."""
    spec, meta = pod["spec"], pod["metadata"]
    annotations = meta.get("annotations") or {}
    errors = pod_annotations.validate_meaning("metadata.annotations", annotations, spec)
    errors += validate_spec("spec", spec, pod_name=meta.get("name", ""), is_pod=True)
    if not spec.get("serviceAccountName"):
        text = "must not be specified when serviceAccountName is not set"
        for place, volume in items(spec, "volumes", "spec"):
            for where, source in items(volume.get("projected") or {}, "sources", f"{place}.projected"):
                if "serviceAccountToken" in source:
                    errors.append(forbidden(f"{where}.serviceAccountToken", text))
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            errors += validate_pod_image(f"spec.{field}[{index}]", container)
    return errors
