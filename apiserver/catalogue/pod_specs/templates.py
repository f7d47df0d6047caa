"""Pod templates: validation, warnings, and columns of the kinds that have one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.catalogue.pod_specs import pod_annotations
from apiserver.catalogue.pod_specs.validation import PodSpecRules
from apiserver.catalogue.pod_specs.warnings import pod_warnings
from apiserver.meta import object_meta, table
from apiserver.meta.field_errors import Errors, forbidden
from apiserver.meta.table import Column
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at, join


def validate_template(
    path: str, template: Document, rules: PodSpecRules, old: Document | None = None
) -> Errors:
    """Checks a PodTemplateSpec: its labels, its annotations and its spec.

    old: the stored one, if there is one. Source: pkg/apis/core/validation, ValidatePodTemplateSpec.
    """
    spec, spec_path = template.get("spec") or {}, join(path, "spec")
    annotations = at(template, "metadata", "annotations") or {}
    errors = validate_template_metadata(path, template, rules, old)
    errors += rules.validate(spec_path, spec, None, at(old or {}, "spec"))
    if pod_annotations.mentions(annotations, pod_annotations.OF_PROFILES):
        errors += pod_annotations.validate_seccomp_fields(annotations, spec_path, spec)
        errors += pod_annotations.validate_app_armor_fields(annotations, spec_path, spec)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{spec_path}.ephemeralContainers", text))
    return errors


def validate_template_metadata(
    path: str, template: Document, rules: PodSpecRules, old: Document | None
) -> Errors:
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    annotations, where = meta.get("annotations") or {}, join(path, "annotations")
    old_annotations = at(old or {}, "metadata", "annotations") or {}
    errors = object_meta.validate_labels(meta.get("labels"), join(path, "labels"))
    errors += object_meta.validate_annotations(annotations, where)
    return errors + pod_annotations.validate_meaning(where, annotations, spec, rules.options, old_annotations)


# ---- columns


def pod_template_columns(*template: str, has_selector: bool = True) -> tuple[Column, ...]:
    """Returns the wide columns about the pods of a kind.

    template: the path of the template; the selector, if there is one, is a field next to it.
    """

    def selector(document: Document, now: float) -> str:
        return table.selector_text(at(document, *template[:-1], "selector"))

    if not has_selector:
        return container_columns(*template)
    text = "The label selector of the pods."
    return (*container_columns(*template), Column("Selector", selector, text, priority=1))


def container_columns(*template: str, priority: int = 1) -> tuple[Column, ...]:
    """Returns the columns about the containers of the template at this path."""

    def joined(field: str) -> Callable[[Document, float], str]:
        return lambda document, now: table.joined(at(document, *template, "spec", "containers") or (), field)

    return (
        Column("Containers", joined("name"), "The containers of each pod, by name.", priority=priority),
        Column("Images", joined("image"), "The images that the containers run.", priority=priority),
    )


POD_TEMPLATE_COLUMNS: Final = pod_template_columns("spec", "template")


def with_template_warnings(
    rules: PodSpecRules,
    *template: str,
    warn: Callable[[Document, Document | None], list[str]] | None = None,
    warn_spec: Callable[[str, Document], list[str]] | None = None,
) -> Callable[[Document, Document | None], list[str]]:
    """Returns the warnings of a kind, followed by new ones about its spec and its template.

    template: its path. warn: returns other warnings of the kind. warn_spec: returns those of the spec with
    the template, given its path. Source: pkg/api/pod, GetWarningsForPodTemplate, and WarningsOnUpdate of the
    strategies.
    """
    path, has_git_repos = ".".join(template), rules.options.git_repos

    def warnings(new: Document, old: Document | None) -> list[str]:
        found = warn(new, old) if warn is not None else []
        if old is not None and _generation(new) == _generation(old):
            return found
        if warn_spec is not None:
            found += warn_spec(".".join(template[:-1]), at(new, *template[:-1]))
        if (pods := at(new, *template)) is not None:
            found += pod_warnings(path, pods, has_git_repos=has_git_repos)
        return found

    return warnings


def _generation(document: Document) -> object:
    return document["metadata"].get("generation")
