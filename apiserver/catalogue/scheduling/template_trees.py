"""The templates of a Workload in 1.37: pod groups, or a tree of composite groups with these as leaves.

Source: pkg/apis/scheduling/validation, ValidateWorkloadSpec; k8s.io/api/scheduling/v1beta1, the declarative
rules (release 1.37).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from apiserver.catalogue.scheduling.group_fields import drop, validate_group, validate_group_update
from apiserver.catalogue.scheduling.scheduling_policies import MIN_COUNT, MIN_GROUP_COUNT
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, FieldError, duplicate, forbidden, invalid
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import exactly_one, max_items, named
from apiserver.schema.validation.documents import items

GROUPS: Final = "podGroupTemplates"
COMPOSITES: Final = "compositePodGroupTemplates"
# The fields that hold templates, and how the policies of these count.
_COUNTS: Final = {GROUPS: MIN_COUNT, COMPOSITES: MIN_GROUP_COUNT}
_TEMPLATES_MAX: Final = 8
_DEPTH_MAX: Final = 4


class _Owner(NamedTuple):
    """The owner of templates: a Workload's spec, or a template of a composite group.

    depth: 0 for a spec. root: the path of the outermost template that contains it.
    """

    path: str
    document: Document
    depth: int
    root: str


def _owners(spec: Document) -> Iterator[_Owner]:
    """Yields all owners of templates, the outer ones first, down to one level more than is allowed."""
    level = [_Owner("spec", spec, 0, "")]
    while level:
        yield from level
        level = [
            _Owner(where, each, owner.depth + 1, owner.root or where)
            for owner in level
            if owner.depth < _DEPTH_MAX
            for where, each in items(owner.document, COMPOSITES, owner.path)
        ]


def _templates(spec: Document) -> Iterator[Document]:
    for owner in _owners(spec):
        for field in _COUNTS:
            yield from owner.document.get(field) or ()


def drop_disabled(spec: Document, fields: frozenset[str], old: Document | None = None) -> None:
    """Removes some fields from a spec and its templates.

    old: the stored spec. All templates keep the fields that one of its templates has.
    """
    drop(spec, fields & {COMPOSITES}, old)
    used = {field for field in fields for each in _templates(old or {}) if each.get(field) is not None}
    for template in _templates(spec):
        drop(template, fields - used - {COMPOSITES})


def validate_templates(spec: Document) -> Errors:
    given = {field: spec.get(field) or None for field in _COUNTS}
    if errors := exactly_one("spec", given, tuple(_COUNTS)):
        return errors
    if errors := [*_too_many(spec), *_too_deep(spec)]:
        return errors
    return [*_same_names(spec), *_priorities(spec), *_childless(spec), *_each(spec)]


def _too_many(spec: Document) -> Iterator[FieldError]:
    for owner in _owners(spec):
        for field in _COUNTS:
            yield from max_items(f"{owner.path}.{field}", owner.document.get(field), _TEMPLATES_MAX)


def _too_deep(spec: Document) -> Iterator[FieldError]:
    """Returns the errors about templates that are too deep to contain pod groups, which are the innermost."""
    too_deep = {owner.root for owner in _owners(spec) if owner.depth == _DEPTH_MAX}
    for where, template in items(spec, COMPOSITES, "spec"):
        if where in too_deep:
            text = f"maximum template hierarchy depth is {_DEPTH_MAX}"
            yield invalid(where, template.get(COMPOSITES), text)


def _same_names(spec: Document) -> Iterator[FieldError]:
    """Returns the errors about names that occur more than once in the tree."""
    seen: set[str] = set()
    for owner in _owners(spec):
        for field in _COUNTS:
            here: set[str] = set()
            for where, template in items(owner.document, field, owner.path):
                name = template.get("name") or ""
                if name in here:
                    yield duplicate(where, name)
                elif name in seen:
                    yield duplicate(f"{where}.name", name)
                here.add(name)
            seen |= here


def _priorities(spec: Document) -> Iterator[FieldError]:
    found = {(each.get("priorityClassName") or "", each.get("priority")) for each in _templates(spec)}
    if len(found) > 1:
        text = (
            "all priority and priorityClassName values must be identical, detected multiple values"
            if spec.get(COMPOSITES)
            else "detected multiple priority configurations"
        )
        yield invalid("spec", None, text)


def _childless(spec: Document) -> Iterator[FieldError]:
    for owner in _owners(spec):
        if owner.depth and not any(owner.document.get(field) for field in _COUNTS):
            text = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
            yield invalid(owner.path, owner.document.get("name") or "", text)


def _each(spec: Document) -> Iterator[FieldError]:
    for owner in _owners(spec):
        for field, count in _COUNTS.items():
            for where, template in items(owner.document, field, owner.path):
                yield from named(f"{where}.name", template.get("name"), names.dns_label)
                yield from validate_group(where, template, count)


def validate_templates_update(new: Document, old: Document, path: str = "spec") -> Errors:
    """Checks that no template is added or removed, and that only mutable fields of templates change."""
    errors: Errors = []
    for field in _COUNTS:
        before = {each.get("name") or "": each for each in old.get(field) or ()}
        now: set[str] = set()
        for where, template in items(new, field, path):
            name = template.get("name") or ""
            now.add(name)
            if (was := before.get(name)) is None:
                errors.append(forbidden(where, "item may not be added"))
            else:
                errors += validate_group_update(where, template, was)
                errors += validate_templates_update(template, was, where)
        errors += [forbidden(f"{path}.{field}", "item may not be removed") for _ in before.keys() - now]
    return errors
