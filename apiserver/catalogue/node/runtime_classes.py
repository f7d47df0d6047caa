"""RuntimeClasses. Source: pkg/apis/node/validation."""

from __future__ import annotations

from apiserver.catalogue.pod_specs import resource_requirements
from apiserver.catalogue.pod_specs.scheduling import tolerations
from apiserver.field_errors import invalid
from apiserver.meta import names, object_meta
from apiserver.validation.checks import Errors, immutable
from apiserver.vocabulary import Document


def validate_runtime_class_create(document: Document) -> Errors:
    handler = document.get("handler", "")
    errors = [invalid("handler", handler, problem) for problem in names.dns_label(handler)]
    if overhead := document.get("overhead"):
        errors += resource_requirements.overhead("overhead", overhead.get("podFixed") or {})
    if scheduling := document.get("scheduling"):
        errors += object_meta.validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        errors += tolerations("scheduling.tolerations", scheduling.get("tolerations") or ())
    return errors


def validate_runtime_class_update(new: Document, old: Document) -> Errors:
    return immutable("handler", new.get("handler", ""), old.get("handler", ""))
