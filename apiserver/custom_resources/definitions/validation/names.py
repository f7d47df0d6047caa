"""Validates the group of a CustomResourceDefinition, the names it asks for and those accepted. Row S01.

Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from apiserver.field_errors import Errors, invalid, required
from apiserver.meta import names
from apiserver.validation.documents import items
from apiserver.vocabulary import Document


def validate_group(group: str) -> Errors:
    if not group:
        return [required("spec.group")]
    if problems := names.dns_subdomain(group):
        return [invalid("spec.group", group, ",".join(problems))]
    if "." not in group:
        return [invalid("spec.group", group, "should be a domain with at least one dot")]
    return []


def validate_spec_names(found: Document) -> Errors:
    """Validates the names that a spec asks for, some of which are required."""
    errors: Errors = [
        required(f"spec.names.{field}")
        for field in ("plural", "singular", "kind", "listKind")
        if not found.get(field)
    ]
    return errors + validate_names("spec.names", found)


def validate_names(path: str, found: Document) -> Errors:
    errors: Errors = []
    for field in ("plural", "singular", "kind", "listKind"):
        name, is_kind = found.get(field, ""), field in ("kind", "listKind")
        problems = names.dns1035_label(name.lower() if is_kind else name) if name else []
        if problems:
            text = ",".join(problems)
            if is_kind:
                text = f"may have mixed case, but should otherwise match: {text}"
            errors.append(invalid(f"{path}.{field}", name, text))
    errors += _labels(path, found, "shortNames")
    if found.get("kind") and found["kind"] == found.get("listKind"):
        text = "kind and listKind may not be the same"
        errors.append(invalid(f"{path}.listKind", found["listKind"], text))
    return errors + _labels(path, found, "categories")


def _labels(path: str, holder: Document, field: str) -> Errors:
    return [
        invalid(where, name, ",".join(problems))
        for where, name in items(holder, field, path)
        if (problems := names.dns1035_label(name))
    ]
