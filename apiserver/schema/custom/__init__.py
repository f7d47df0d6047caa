"""Schemas of custom resources, as definitions tell them: what is kept, completed, refused.

A definition's schema is JSON that somebody wrote. Nothing of it is compiled before an object needs it, so
hundreds of definitions cost little more than their texts. Then:

- `walk` removes unknown fields, sets defaults, checks metadata: one pass over a body, compiled to closures;
- `values` checks values, in a fast way that says only yes or no, and a slow one that says why not;
- `correlation` tells which old value a new one replaces: an update need not mend what was wrong before;
- `resources` finds repeated items of `set` and `map` lists, and looks at resources inside of resources;
- `structure` is the schema for all that knows nothing of custom resources, as server-side apply.

Rules in CEL are no part of this. Schemas have been accepted by the validation of definitions before, so wrong
ones are not looked for here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from apiserver.field_errors import FieldError, invalid
from apiserver.schema.custom.correlation import Correlation
from apiserver.schema.custom.json_schema import Extensions, everywhere
from apiserver.schema.custom.list_types import EmbeddedResources, ListTypes
from apiserver.schema.custom.pruning import Pruner
from apiserver.schema.custom.structural_builder import structural_schema
from apiserver.schema.custom.validation import NO_FIELD, Check, Errors
from apiserver.schema.structural import Schema
from apiserver.vocabulary import Document

__all__ = ["Correlation", "CustomSchema"]

_STATUS = "status"


class CustomSchema:
    """The schema of one version of a definition, and all that is made of it, when it is first used.

    document: `openAPIV3Schema`; kept, not changed.
    vendor: the word in the names of extensions, as in `x-kubernetes-list-type`.
    meta: the schema of ObjectMeta, one for all.
    """

    def __init__(self, document: Mapping[str, Any], *, vendor: str, meta: Schema) -> None:
        self.document = document
        self._vendor, self._meta = vendor, meta

    def compile(self) -> None:
        """Make what the first requests would wait for. Parts of the schema still follow with their values."""
        self.walk, self._check, self._list_types, self._embedded  # noqa: B018
        self._check.tests  # noqa: B018

    @cached_property
    def extensions(self) -> Extensions:
        return Extensions(self._vendor)

    @cached_property
    def schema(self) -> Schema:
        """As the rest of the server knows schemas."""
        return structural_schema(self.document, self.extensions, self._meta)

    @cached_property
    def walk(self) -> Pruner:
        """Prunes and completes a body in place; returns the paths of unknown fields. Raises TypeMismatch."""
        return Pruner(self.document, self.extensions, self._meta)

    @cached_property
    def has_defaults(self) -> bool:
        """Stored objects may lack some; if not, they can be shown as they are."""
        return any(each.get("default") is not None for each in everywhere(self.document))

    def default(self, document: Document) -> bool:
        """Set defaults in a document, in place. Returns whether it has changed. Raises TypeMismatch."""
        return self.has_defaults and self.walk.complete(document)

    def prune_and_default(self, document: Document) -> bool:
        """Show a stored document by this schema, in place: without unknown fields, with defaults.

        Returns whether something has changed. Raises TypeMismatch.
        """
        return self.walk.prune_and_default(document)

    # ---- validation

    def validate(self, document: Document, old: Document | None = None) -> list[FieldError]:
        """All that is wrong with a document.

        old: the object that it replaces, in the same version; what was wrong with it and has not changed is
        not told again.
        """
        return [
            *self.validate_values(document, old),
            *self.validate_embedded(document),
            *self.validate_lists(document, old),
        ]

    def validate_values(self, document: Document, old: Document | None = None) -> list[FieldError]:
        correlation = self.correlate(document, old) if old is not None else None
        return _explained(self._check, document, correlation)

    def validate_status(self, status: Any, old: Any = None) -> list[FieldError]:
        """What is wrong with the value of a status alone, which is told by paths inside of it."""
        check, schema = self._status_validator, self._status_schema
        correlation = Correlation(status, old, schema, self.extensions) if old is not None else None
        errors = []
        for error in _explained(check, status, correlation):
            field = _STATUS if error.field == NO_FIELD else f"{_STATUS}.{error.field}"
            errors.append(FieldError(field, error.reason, error.message))
        return errors

    def validate_embedded(self, document: Document) -> list[FieldError]:
        """What is wrong with the types and the metadata of resources inside."""
        return self._embedded.check(document)

    def validate_lists(self, document: Document, old: Document | None = None) -> list[FieldError]:
        """Items that a list has twice, unless the old object had some, too."""
        errors = self._list_types.check(document)
        return [] if errors and old is not None and self._list_types.check(old) else errors

    def correlate(self, new: Any, old: Any) -> Correlation:
        """Which old value each new one replaces."""
        return Correlation(new, old, self.document, self.extensions)

    @cached_property
    def _check(self) -> Check:
        return Check(self.document, self.extensions)

    @cached_property
    def _status_schema(self) -> Mapping[str, Any]:
        schema = (self.document.get("properties") or {}).get(_STATUS)
        return schema if isinstance(schema, Mapping) else {}

    @cached_property
    def _status_validator(self) -> Check:
        return Check(self._status_schema, self.extensions)

    @cached_property
    def _list_types(self) -> ListTypes:
        return ListTypes(self.document, self.extensions)

    @cached_property
    def _embedded(self) -> EmbeddedResources:
        return EmbeddedResources(self.document, self.extensions)


def _explained(check: Check, value: Any, correlation: Correlation | None) -> list[FieldError]:
    errors: Errors = {}
    try:
        check._explain_child(value, "", correlation, errors)
    except RecursionError:
        return [invalid(NO_FIELD, "", "the object is nested too deeply")]
    return list(errors.values())
