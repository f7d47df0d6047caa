"""What types that run pods have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.catalogue.pod_specs import pod_annotations
from apiserver.catalogue.pod_specs.validation import validate_spec
from apiserver.catalogue.pod_specs.warnings import pod_warnings
from apiserver.field_errors import forbidden
from apiserver.meta import object_meta, table
from apiserver.meta.table import Column
from apiserver.validation.checks import Errors, at, join
from apiserver.vocabulary import Document


def clear_status(document: Document) -> None:
    """Create: whoever runs the pods will say how they are."""
    document["status"] = {}


def status_count(field: str) -> Callable[[Document, float], int]:
    """A cell that shows a number of the status; nobody has counted yet if it is not there."""
    return lambda document, now: int(document.get("status", {}).get(field) or 0)


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


def pod_template_columns(*template: str, has_selector: bool = True) -> tuple[Column, ...]:
    """Wide columns about the pods.

    template: the path of the template; the selector, if there is one, stands beside it.
    """

    def containers(field: str) -> Callable[[Document, float], str]:
        return lambda document, now: table.joined(at(document, *template, "spec", "containers") or (), field)

    def selector(document: Document, now: float) -> str:
        return table.selector_text(at(document, *template[:-1], "selector"))

    found = "The labels by which the pods are found."
    return (
        Column(
            "Containers", containers("name"), priority=1, description="The containers of each pod, by name."
        ),
        Column("Images", containers("image"), priority=1, description="The images that the containers run."),
        *((Column("Selector", selector, priority=1, description=found),) if has_selector else ()),
    )


POD_TEMPLATE_COLUMNS: Final = pod_template_columns("spec", "template")


def with_template_warnings(
    *template: str, warn: Callable[[Document, Document | None], list[str]] | None = None
) -> Callable[[Document, Document | None], list[str]]:
    """Warnings of a kind, and those about its template wherever that is new.

    template: its path.
    """
    path = ".".join(template)

    def warnings(new: Document, old: Document | None) -> list[str]:
        found = warn(new, old) if warn is not None else []
        pods = at(new, *template)
        if old is None or pods != at(old, *template):
            found += warn_template(path, pods)
        return found

    return warnings
