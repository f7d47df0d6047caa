"""Metadata of the claims that are made from a template: labels and annotations, and nothing else."""

from __future__ import annotations

from typing import Final

from apiserver.meta import object_meta
from apiserver.meta.field_errors import Errors, forbidden
from apiserver.meta.vocabulary import Document

# The other fields, and their values that are none.
_UNSET: Final = {
    **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"), ""),
    "generation": 0,
    **dict.fromkeys(("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"), None),
    **dict.fromkeys(("ownerReferences", "finalizers", "managedFields"), None),
}


def validate_claim_metadata(path: str, meta: Document) -> Errors:
    """Returns the errors in the metadata of a claim template.

    Source: pkg/apis/core/validation, ValidateTemplateObjectMeta.
    """
    errors = object_meta.validate_annotations(meta.get("annotations"), f"{path}.annotations")
    errors += object_meta.validate_labels(meta.get("labels"), f"{path}.labels")
    return errors + [
        forbidden(f"{path}.{'uID' if field == 'uid' else field}", "cannot be set")
        for field, unset in _UNSET.items()
        if meta.get(field) is not None and meta[field] != unset
    ]
