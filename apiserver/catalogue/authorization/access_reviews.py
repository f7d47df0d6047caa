"""Validation of access reviews. Source: pkg/apis/authorization/validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from apiserver.auth.authz.attributes import Selector, SelectorRequirement
from apiserver.meta.field_errors import Errors, forbidden, invalid, required
from apiserver.meta.selectors import (
    FieldSelector,
    LabelSelector,
    SelectorSyntaxError,
    parse_field_selector,
    parse_label_selector,
)
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import items
from apiserver.schema.validation.label_selectors import LABEL_OPERATORS, label_requirement


def validate_self_review(document: Document) -> Errors:
    return _validate_attributes(document["spec"]) + _validate_meta(document["metadata"])


def validate_review(document: Document) -> Errors:
    return _validate_subject(document["spec"]) + _validate_meta(document["metadata"])


def validate_local_review(document: Document) -> Errors:
    meta, spec = document["metadata"], document["spec"]
    errors = _validate_subject(spec)
    if meta.keys() - {"namespace"}:
        errors.append(invalid("metadata", meta, "must be empty except for namespace"))
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


def _validate_selectors(spec: Document) -> Errors:
    errors: Errors = []
    for field, check in _REQUIREMENT_CHECKS.items():
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
        for where, requirement in items(selector, "requirements", path):
            errors += check(where, requirement)
    return errors


# Operators of later releases are no errors: the requirements that a review cannot read are ignored, and it
# says so.


def _field_requirement(path: str, requirement: Document) -> Errors:
    operator, values = requirement.get("operator", ""), requirement.get("values")
    errors: Errors = []
    if not requirement.get("key"):
        errors.append(required(f"{path}.key", "must be specified"))
    if operator in ("In", "NotIn") and not values:
        errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    if operator in ("Exists", "DoesNotExist") and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden(f"{path}.values", text))
    return errors


_REQUIREMENT_CHECKS: Final[Mapping[str, Callable[[str, Document], Errors]]] = {
    "fieldSelector": _field_requirement,
    "labelSelector": partial(label_requirement, allows_unknown_operators=True),
}


SELECTOR_FIELDS: Final = frozenset(_REQUIREMENT_CHECKS)


def unread_selectors(spec: Document) -> str:
    """Returns the error about selectors of a valid review that the server ignores, wholly or partly; empty if
    none.

    The text is that of `status.evaluationError`. Source: pkg/registry/authorization/util/helpers.go.
    """
    attributes = spec.get("resourceAttributes") or {}
    problems = []
    for field, count in _READABLE.items():
        selector = attributes.get(field) or {}
        readable, total = count(selector)
        if readable < total:
            how = "partially ignored" if readable else "ignored"
            problems.append(f"spec.resourceAttributes.{field} {how} due to parse error")
    return "; ".join(problems)


def readable_field_selector(selector: Document) -> Selector:
    """Returns the requirements of a field selector that the server can read."""
    if raw := selector.get("rawSelector"):
        return str(raw)
    requirements = selector.get("requirements") or ()
    return _requirements(each for each in requirements if _is_readable_field(each))


def readable_label_selector(selector: Document) -> Selector:
    """Returns the requirements of a label selector that the server can read."""
    if raw := selector.get("rawSelector"):
        return str(raw)
    requirements = selector.get("requirements") or ()
    return _requirements(each for each in requirements if each.get("operator") in LABEL_OPERATORS)


def _requirements(found: Iterable[Document]) -> tuple[SelectorRequirement, ...]:
    return tuple(
        SelectorRequirement(each.get("key", ""), each["operator"], tuple(each.get("values") or ()))
        for each in found
    )


def _is_readable_field(requirement: Document) -> bool:
    return requirement.get("operator") in ("In", "NotIn") and len(requirement.get("values") or ()) == 1


def _readable_field_requirements(selector: Document) -> tuple[int, int]:
    """Returns the number of requirements that the server can read, and the number of all."""
    if raw := selector.get("rawSelector"):
        return _is_readable(lambda text: parse_field_selector(text, None), raw), 1
    requirements = selector.get("requirements") or ()
    return sum(map(_is_readable_field, requirements)), len(requirements)


def _readable_label_requirements(selector: Document) -> tuple[int, int]:
    if raw := selector.get("rawSelector"):
        return _is_readable(parse_label_selector, raw), 1
    requirements = selector.get("requirements") or ()
    readable = [each for each in requirements if each.get("operator") in LABEL_OPERATORS]
    return len(readable), len(requirements)


def _is_readable(parse: Callable[[str], FieldSelector | LabelSelector], raw: str) -> bool:
    try:
        parse(raw)
    except SelectorSyntaxError:
        return False
    return True


_READABLE: Final[Mapping[str, Callable[[Document], tuple[int, int]]]] = {
    "fieldSelector": _readable_field_requirements,
    "labelSelector": _readable_label_requirements,
}


def _validate_meta(meta: Document) -> Errors:
    return [invalid("metadata", meta, "must be empty")] if meta else []


def _go_value(attributes: Document) -> Document:
    """Returns the attributes as Go prints their internal type, which has no JSON names."""
    return {"Path": attributes.get("path", ""), "Verb": attributes.get("verb", "")}
