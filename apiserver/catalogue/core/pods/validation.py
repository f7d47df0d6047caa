"""Validation of single pods and of new ones, and warnings about new ones.

Source: pkg/registry/core/pod, strategy.go, and pkg/apis/core/validation, ValidatePodCreate.
"""

from __future__ import annotations

from apiserver.catalogue.core.pods.rules import PodRules
from apiserver.catalogue.pod_specs import pod_annotations
from apiserver.catalogue.pod_specs.containers import validate_pod_image
from apiserver.catalogue.pod_specs.validation import PodIdentity, PodSpecRules
from apiserver.catalogue.pod_specs.warnings import pod_warnings
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, forbidden
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import items

# ---- new pods


def validate_pod_create(rules: PodSpecRules, pod: Document) -> Errors:
    spec, annotations = pod["spec"], pod["metadata"].get("annotations") or {}
    errors = validate_pod(rules, pod)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", text))
    if pod_annotations.mentions(annotations, pod_annotations.OF_PROFILES):
        errors += pod_annotations.validate_seccomp_fields(annotations, "spec", spec)
        errors += pod_annotations.validate_app_armor_fields(annotations, "spec", spec)
    return errors


# ---- all pods


def validate_pod(rules: PodSpecRules, pod: Document, old: Document | None = None) -> Errors:
    """Checks a pod without its metadata. old: the stored one.

    Source: validatePodMetadataAndSpec.
    """
    spec, meta = pod["spec"], pod["metadata"]
    annotations = meta.get("annotations") or {}
    old_spec, old_annotations = (
        (old["spec"], old["metadata"].get("annotations") or {}) if old is not None else (None, {})
    )
    errors = pod_annotations.validate_meaning(
        "metadata.annotations", annotations, spec, rules.options, old_annotations
    )
    identity = PodIdentity(meta.get("name", ""), is_static=pod_annotations.MIRROR in annotations)
    errors += rules.validate("spec", spec, identity, old_spec)
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


# ---- warnings


def warn_pod(rules: PodRules, new: Document, old: Document | None) -> list[str]:
    """Returns warnings about discouraged fields of new pods; updates cause no warnings."""
    if old is not None:
        return []
    warnings = []
    if problems := names.dns_label(new["metadata"].get("name", "")):
        text = "this is used in the Pod's hostname, which can result in surprising behavior"
        listed = " ".join(problems)
        warnings.append(f"metadata.name: {text}; a DNS label is recommended: [{listed}]")
    return warnings + pod_warnings("", new, has_git_repos=rules.specs.options.git_repos)
