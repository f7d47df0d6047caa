"""Checks conditions as `metav1.Condition` has them.

Source: k8s.io/apimachinery, pkg/apis/meta/v1/validation, ValidateConditions.
"""

from __future__ import annotations

import re
from typing import Final

from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import follows, max_bytes, one_of, uniqueness
from apiserver.schema.validation.documents import items

_STATUSES: Final = ("False", "True", "Unknown")
_REASON_FORMAT: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON: Final = re.compile(_REASON_FORMAT)
_NO_REASON: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name', "
    " or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    f"'{_REASON_FORMAT}')"
)
_REASON_BYTES_MAX: Final = 1024
_MESSAGE_BYTES_MAX: Final = 32 * 1024


def validate_conditions(status: Document, path: str) -> Errors:
    """Checks the field `conditions` of a status. path: of the status."""
    errors: Errors = []
    unique = uniqueness()
    for where, condition in items(status, "conditions", path):
        kind = condition.get("type", "")
        errors += unique(f"{where}.type", kind)
        errors += _condition(where, condition)
    return errors


def _condition(path: str, condition: Document) -> Errors:
    kind, status = condition.get("type", ""), condition.get("status", "")
    errors = follows(f"{path}.type", kind, names.qualified_name)
    errors += one_of(f"{path}.status", status, _STATUSES)
    generation, reason = condition.get("observedGeneration") or 0, condition.get("reason", "")
    if generation < 0:
        text = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.observedGeneration", generation, text))
    if not condition.get("lastTransitionTime"):
        errors.append(required(f"{path}.lastTransitionTime"))
    where = f"{path}.reason"
    if not reason:
        errors.append(required(where))
    elif not _REASON.fullmatch(reason):
        errors.append(invalid(where, reason, _NO_REASON))
    errors += max_bytes(where, reason, _REASON_BYTES_MAX)
    return errors + max_bytes(f"{path}.message", condition.get("message"), _MESSAGE_BYTES_MAX)
