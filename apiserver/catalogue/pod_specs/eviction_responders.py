"""Who sees to it that a pod can go, in which order, when somebody asks for its eviction (since 1.37).

Source: k8s.io/api/core/v1, the declarative rules of EvictionResponder.
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.common.participants import validate_own_name
from apiserver.meta.field_errors import Errors, duplicate, invalid, required, too_many
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import at_least, at_most
from apiserver.schema.validation.documents import items

FIELD: Final = "evictionResponders"
_RESPONDERS_MAX: Final = 10
_PRIORITY_MAX: Final = 100_000
_RESERVED_BELOW: Final = 1000


def validate_eviction_responders(path: str, spec: Document) -> Errors:
    """Returns the errors in the eviction responders of a pod. path: that of the spec."""
    count = len(spec.get(FIELD) or ())
    if count > _RESPONDERS_MAX:
        return [too_many(f"{path}.{FIELD}", count, _RESPONDERS_MAX)]
    errors: Errors = []
    seen: set[str] = set()
    for where, responder in items(spec, FIELD, path):
        name, priority = responder.get("name") or "", responder.get("priority")
        if name in seen:
            errors.append(duplicate(where, name))
        seen.add(name)
        errors += validate_own_name(f"{where}.name", name)
        errors += _priority(f"{where}.priority", priority)
    return errors


def _priority(path: str, priority: int | None) -> Errors:
    if priority is None:
        return [required(path)]
    if 0 <= priority < _RESERVED_BELOW:
        reserved = f"priorities 0-{_RESERVED_BELOW - 1} are reserved for responders with *.k8s.io suffix"
        return [invalid(path, priority, reserved)]
    return at_least(path, priority, 0) + at_most(path, priority, _PRIORITY_MAX)
