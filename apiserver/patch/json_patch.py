"""JSON Patch, RFC 6902, carried out by the jsonpatch library.

Two things are as Kubernetes' library has them: `replace` of a member that is not there adds it, and a
patch has at most 10,000 operations. Row L03.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import jsonpatch
import jsonpointer

from apiserver.schema.compile import json_type

OPERATIONS_MAX: Final = 10_000


class MalformedPatch(ValueError):
    """The document is no JSON patch at all; the message is the client's."""


class TooManyOperations(ValueError):
    def __init__(self, count: int) -> None:
        super().__init__(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{OPERATIONS_MAX}, got {count}"
        )


class CannotApply(ValueError):
    """An operation cannot be carried out on this document."""


class _Replace(jsonpatch.ReplaceOperation):
    def apply(self, obj: Any) -> Any:
        parent, last = self.pointer.to_last(obj)
        if isinstance(parent, dict) and last is not None:
            parent[last] = self.operation["value"]
            return obj
        return super().apply(obj)


class _Patch(jsonpatch.JsonPatch):
    operations = MappingProxyType({**jsonpatch.JsonPatch.operations, "replace": _Replace})


def check(patch: Any) -> None:
    """Whether it can be a patch. Raises MalformedPatch, TooManyOperations."""
    if patch is None:
        return  # Go reads null as no operations.
    if not isinstance(patch, list):
        raise MalformedPatch(
            f"json: cannot unmarshal {json_type(patch)} into Go value of type []handlers.jsonPatchOp"
        )
    if len(patch) > OPERATIONS_MAX:
        raise TooManyOperations(len(patch))
    for operation in patch:
        if not isinstance(operation, dict):
            raise MalformedPatch(
                f"json: cannot unmarshal {json_type(operation)} into Go value of type handlers.jsonPatchOp"
            )


def apply(document: Any, patch: list[dict[str, Any]] | None) -> Any:
    """The document with all operations carried out. May change the document, also when it fails.

    Raises CannotApply.
    """
    try:
        return _Patch(patch or []).apply(document, in_place=True)
    except (
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
        KeyError,
        TypeError,
        IndexError,
        ValueError,
    ) as error:
        raise CannotApply(str(error)) from error
