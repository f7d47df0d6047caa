"""Validation of access reviews. Source: pkg/apis/authorization/validation."""

from __future__ import annotations

from typing import Final

from apiserver.field_errors import Errors, invalid, required
from apiserver.vocabulary import Document


def validate_self_review(document: Document) -> Errors:
    return _validate_attributes(document["spec"]) + _validate_meta(document["metadata"])


def validate_review(document: Document) -> Errors:
    return _validate_subject(document["spec"]) + _validate_meta(document["metadata"])


def validate_local_review(document: Document) -> Errors:
    meta, spec = document["metadata"], document["spec"]
    errors = _validate_subject(spec)
    errors += _validate_meta({key: value for key, value in meta.items() if key != "namespace"})
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and resource.get("namespace", "") != meta.get("namespace", ""):
        text = "must match metadata.namespace"
        path = "spec.resourceAttributes.namespace"
        errors.append(invalid(path, resource.get("namespace", ""), text))
    if other is not None:
        text = "disallowed on this kind of request"
        errors.append(invalid("spec.nonResourceAttributes", _go_value(other), text))
    return errors


def _validate_subject(spec: Document) -> Errors:
    errors = _validate_presence(spec)
    if not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    return errors + _validate_selectors(spec)


def _validate_attributes(spec: Document) -> Errors:
    return _validate_presence(spec) + _validate_selectors(spec)


def _validate_presence(spec: Document) -> Errors:
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and other is not None:
        text = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", _go_value(other), text)]
    if resource is None and other is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, text)]
    return []


_SELECTORS: Final = ("fieldSelector", "labelSelector")


def _validate_selectors(spec: Document) -> Errors:
    errors: Errors = []
    for field in _SELECTORS:
        selector = (spec.get("resourceAttributes") or {}).get(field)
        if selector is None:
            continue
        path = f"spec.resourceAttributes.{field}"
        raw, requirements = selector.get("rawSelector"), selector.get("requirements")
        if raw and requirements:
            text = "may not specified at the same time as requirements"
            errors.append(invalid(f"{path}.rawSelector", raw, text))
        if not raw and not requirements:
            text = f"when {path} is specified, requirements or rawSelector is required"
            errors.append(required(f"{path}.requirements", text))
    return errors


def _validate_meta(meta: Document) -> Errors:
    return [invalid("metadata", meta, "must be empty")] if meta else []


def _go_value(attributes: Document) -> Document:
    """Returns the attributes as Go prints its internal type, which has no JSON names."""
    return {"Path": attributes.get("path", ""), "Verb": attributes.get("verb", "")}
