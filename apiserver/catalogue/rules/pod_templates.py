"""Pod templates, as every kind that makes pods has one."""

from __future__ import annotations

from apiserver.catalogue.pod_specs import pod_annotations
from apiserver.catalogue.pod_specs.validation import validate_spec
from apiserver.catalogue.pod_specs.warnings import pod_warnings
from apiserver.field_errors import forbidden
from apiserver.meta import object_meta
from apiserver.validation.checks import Errors, join
from apiserver.vocabulary import Document


def validate_template(path: str, template: Document) -> Errors:
    """A PodTemplateSpec: labels, annotations and the spec of pods to be made.

    Source: pkg/apis/core/validation, ValidatePodTemplateSpec.
    """
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    annotations, where = meta.get("annotations") or {}, join(path, "annotations")
    spec_path = join(path, "spec")
    errors = object_meta.validate_labels(meta.get("labels"), join(path, "labels"))
    errors += pod_annotations.validate_keys(where, annotations)
    errors += pod_annotations.validate_meaning(where, annotations, spec)
    errors += validate_spec(spec_path, spec)
    errors += pod_annotations.validate_seccomp_fields(annotations, spec_path, spec)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{spec_path}.ephemeralContainers", text))
    return errors


def warn_template(path: str, template: Document) -> list[str]:
    """What is allowed in a template, and still not wise.

    Source: pkg/api/pod, GetWarningsForPodTemplate.
    """
    return pod_warnings(path, template)
