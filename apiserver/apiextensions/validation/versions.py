"""The versions of a CustomResourceDefinition: names, which are stored, how clients of old ones are warned.

Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from typing import Final

from apiserver.field_errors import invalid
from apiserver.meta import names
from apiserver.validation.checks import Errors, at
from apiserver.vocabulary import Document

_DEPRECATION_WARNING_BYTES_MAX: Final = 256


def versions_of(document: Document) -> list[Document]:
    return at(document, "spec", "versions") or []


def storage_version(document: Document) -> list[str]:
    """The name of the first version that is for storage, if there is one."""
    return [version["name"] for version in versions_of(document) if version.get("storage")][:1]


def validate_stored_versions(path: str, document: Document) -> Errors:
    """Row S04: objects may be stored in these, so they have to be known until somebody has seen to it."""
    stored = at(document, "status", "storedVersions")
    if not stored:
        return [invalid(path, stored, "must have at least one stored version")]
    errors: Errors = []
    indexes = {name: index for index, name in enumerate(stored)}
    for version in versions_of(document):
        name = version.get("name", "")
        if version.get("storage") and name not in stored:
            errors.append(invalid(path, stored, f"must have the storage version {name}"))
        indexes.pop(name, None)
    return errors + [
        invalid(
            f"{path}[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in "
            f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
            f"removes {name} from status.storedVersions",
        )
        for name, index in indexes.items()
    ]


def validate_version(path: str, version: Document) -> Errors:
    """What does not depend on the others, nor on its schema."""
    name = version.get("name", "")
    problems = names.dns1035_label(name)
    errors: Errors = [invalid(f"{path}.name", name, ",".join(problems))] if problems else []
    return errors + _deprecation(path, version)


def _deprecation(path: str, version: Document) -> Errors:
    warning = version.get("deprecationWarning")
    if warning is None:
        return []
    where = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        return [invalid(where, warning, "can only be set for deprecated versions")]
    errors: Errors = []
    if len(warning.encode()) > _DEPRECATION_WARNING_BYTES_MAX:
        errors.append(invalid(where, warning, "must be <= 256 characters long"))
    if not warning:
        errors.append(invalid(where, warning, "must not be an empty string"))
    stray = next((index for index, character in enumerate(warning) if not character.isprintable()), None)
    if stray is not None:
        text = (
            "must only contain printable UTF-8 characters; "
            f"non-printable character found at index {len(warning[:stray].encode())}"
        )
        errors.append(invalid(where, warning, text))
    return errors
