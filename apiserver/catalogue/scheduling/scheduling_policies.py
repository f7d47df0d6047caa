"""How the pods of a group are scheduled: each by itself, or some of them together."""

from __future__ import annotations

from typing import Final

from apiserver.field_errors import Errors, invalid, required
from apiserver.validation.checks import at_least
from apiserver.vocabulary import Document

_POLICIES: Final = ("basic", "gang")
_ALL: Final = "`basic`, `gang`"


def validate_policy(path: str, policy: Document) -> Errors:
    """Checks that there is one policy."""
    told = [f"`{each}`" for each in _POLICIES if policy.get(each) is not None]
    if not told:
        return [invalid(path, "", f"must specify one of: {_ALL}")]
    if len(told) > 1:
        text = f"exactly one of {_ALL} is required, but multiple fields are set"
        return [invalid(path, f"{{{', '.join(told)}}}", text)]
    if (gang := policy.get("gang")) is None:
        return []
    where, count = f"{path}.gang.minCount", gang.get("minCount") or 0
    return at_least(where, count, 1) if count else [required(where)]
