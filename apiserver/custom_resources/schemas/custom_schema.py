"""The schema of one version of a definition, with the parts that prune, set defaults and validate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from apiserver.custom_resources.schemas.correlation import Correlation
from apiserver.custom_resources.schemas.default_sizes import default_bytes
from apiserver.custom_resources.schemas.embedded_resources import embedded_resources
from apiserver.custom_resources.schemas.findings import moved
from apiserver.custom_resources.schemas.json_schema import all_schemas
from apiserver.custom_resources.schemas.list_types import list_types
from apiserver.custom_resources.schemas.prune_and_default import Pruner
from apiserver.custom_resources.schemas.structural_builder import structural_schema
from apiserver.custom_resources.schemas.validation import SchemaValidator
from apiserver.custom_resources.schemas.visits import DocumentCheck
from apiserver.meta.field_errors import FieldError
from apiserver.meta.vocabulary import Document
from apiserver.schema.extensions import Extensions
from apiserver.schema.structural import Schema

_STATUS = "status"


class CustomSchema:
    """The schema of one version of a definition, each part of which is compiled on first use.

    document: `openAPIV3Schema`; kept, not changed.
    vendor: as in the extension key `x-kubernetes-list-type`.
    meta: the schema of ObjectMeta, which all custom resources share.
    keeps_unknown: whether unknown fields are kept everywhere, as in definitions of v1beta1.
    """

    def __init__(
        self, document: Mapping[str, Any], *, vendor: str, meta: Schema, keeps_unknown: bool = False
    ) -> None:
        self.document = document
        self._vendor, self._meta, self._keeps_unknown = vendor, meta, keeps_unknown

    def compile(self) -> None:
        """Compile the parts that the first requests need; others are compiled for their first values."""
        self.pruner, self._validator, self._list_types, self._embedded, self.default_bytes  # noqa: B018
        self._validator.tests  # noqa: B018

    @cached_property
    def extensions(self) -> Extensions:
        return Extensions(self._vendor)

    @cached_property
    def schema(self) -> Schema:
        """The structural schema that the rest of the server uses."""
        return structural_schema(self.document, self.extensions, self._meta)

    @cached_property
    def pruner(self) -> Pruner:
        """The function that prunes a body and sets defaults in place; it returns the unknown fields.

        It raises TypeMismatch.
        """
        return Pruner(self.document, self.extensions, self._meta, keeps_unknown=self._keeps_unknown)

    @cached_property
    def has_defaults(self) -> bool:
        """Whether the schema has defaults, which stored objects may lack."""
        return any(each.get("default") is not None for each in all_schemas(self.document))

    @cached_property
    def default_bytes(self) -> int:
        """The maximum number of bytes that defaults add to one object, or one null, in a document."""
        return default_bytes(self.document) if self.has_defaults else 0

    # ---- validation

    def validate(self, document: Document, old: Document | None = None) -> list[FieldError]:
        """Returns all errors of a document.

        old: the object that it replaces, in the same version; unchanged invalid values are no errors.
        """
        return [
            *self.validate_values(document, old),
            *self.validate_parts(document, old),
        ]

    def validate_values(self, document: Document, old: Document | None = None) -> list[FieldError]:
        correlation = self.correlate(document, old) if old is not None else None
        return self._validator.validate(document, correlation=correlation)

    def validate_status(self, status: Any, old: Any = None) -> list[FieldError]:
        """Returns the errors of a status, with paths below `status`."""
        validator, schema = self._status_validator, self._status_schema
        correlation = Correlation(status, old, schema, self.extensions) if old is not None else None
        return [moved(each, _STATUS) for each in validator.validate(status, correlation=correlation)]

    def validate_parts(self, document: Document, old: Document | None = None) -> list[FieldError]:
        """Returns the errors in the types and the metadata of embedded resources, and the duplicates in lists
        by their types; none of these if the old object had some, too.
        """
        errors, duplicates = self._embedded.check(document), self._list_types.check(document)
        if duplicates and not (old is not None and self._list_types.check(old)):
            errors += duplicates
        return errors

    def correlate(self, new: Any, old: Any) -> Correlation:
        """Correlates a new value with the old value that it replaces."""
        return Correlation(new, old, self.document, self.extensions)

    @cached_property
    def _validator(self) -> SchemaValidator:
        return SchemaValidator(self.document, self.extensions)

    @cached_property
    def _status_schema(self) -> Mapping[str, Any]:
        schema = (self.document.get("properties") or {}).get(_STATUS)
        return schema if isinstance(schema, Mapping) else {}

    @cached_property
    def _status_validator(self) -> SchemaValidator:
        return SchemaValidator(self._status_schema, self.extensions)

    @cached_property
    def _list_types(self) -> DocumentCheck:
        return list_types(self.document, self.extensions)

    @cached_property
    def _embedded(self) -> DocumentCheck:
        return embedded_resources(self.document, self.extensions)
