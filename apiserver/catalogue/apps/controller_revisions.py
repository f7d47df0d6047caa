"""Controller revisions: what stateful sets and daemon sets remember of their templates."""

from __future__ import annotations

from apiserver.field_errors import required
from apiserver.validation.checks import Errors, immutable, non_negative
from apiserver.vocabulary import Document


def validate_controller_revision(document: Document) -> Errors:
    errors: Errors = [] if document.get("data") is not None else [required("data", "data is mandatory")]
    return errors + non_negative("revision", document.get("revision"))


def validate_controller_revision_update(new: Document, old: Document) -> Errors:
    return immutable("data", new.get("data"), old.get("data"))
