"""JSON Patch, RFC 6902, applied by the jsonpatch library.

Three rules are those of Kubernetes: `replace` adds a member that does not exist, a patch has at most 10,000
operations, and the total size of its copies is bounded. So are the items moved in lists. Row L03.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import jsonpatch
import jsonpointer
import orjson

from apiserver.golang.formatting import json_type

OPERATIONS_MAX: Final = 10_000
# kube-apiserver: JSONPatchMaxCopyBytes.
COPIED_BYTES_MAX: Final = 3 * 1024 * 1024
# Less than half a second's work: ten thousand changes of a list of thirty thousand items.
MOVED_ITEMS_MAX: Final = 300_000_000
# The items that fewer operations move are not counted.
UNCOUNTED_OPERATIONS_MAX: Final = 500


class MalformedJsonPatch(ValueError):
    """The document is not a JSON patch. The message is for the client."""


class TooManyOperations(ValueError):
    def __init__(self, count: int) -> None:
        super().__init__(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{OPERATIONS_MAX}, got {count}"
        )


class CannotApply(ValueError):
    """An operation cannot be applied to this document."""


class _Replace(jsonpatch.ReplaceOperation):
    def apply(self, obj: Any) -> Any:
        parent, last = self.pointer.to_last(obj)
        if isinstance(parent, dict) and last is not None:
            parent[last] = self.operation["value"]
            return obj
        return super().apply(obj)


class _Copies:
    """Limits the total size of the copies of one patch: each may double the one before."""

    def __init__(self) -> None:
        self.bytes = 0

    def add(self, value: Any) -> None:
        self.bytes += len(orjson.dumps(value))
        if self.bytes > COPIED_BYTES_MAX:
            raise CannotApply(f"copies add up to {self.bytes} bytes; {COPIED_BYTES_MAX} are possible")


class _Copy(jsonpatch.CopyOperation):
    def __init__(self, copies: _Copies, operation: Any, pointer_cls: Any) -> None:
        super().__init__(operation, pointer_cls=pointer_cls)
        self._copies = copies

    def apply(self, obj: Any) -> Any:
        source = self.pointer_cls(self.operation["from"])
        self._copies.add(source.resolve(obj))
        return super().apply(obj)


def _counting_pointer() -> type[jsonpointer.JsonPointer]:
    """A pointer class for one patch, which counts the items of changed lists: all of them may be moved."""
    items = 0

    class Pointer(jsonpointer.JsonPointer):
        def to_last(self, doc: Any) -> Any:
            nonlocal items
            parent, last = super().to_last(doc)
            if isinstance(parent, list):
                items += len(parent)
                if items > MOVED_ITEMS_MAX:
                    raise CannotApply(f"more than {MOVED_ITEMS_MAX} items of lists would have to move")
            return parent, last

    return Pointer


class _Patch(jsonpatch.JsonPatch):
    def __init__(self, patch: list[dict[str, Any]]) -> None:
        copying = partial(_Copy, _Copies())
        self.operations = {  # type: ignore[misc, assignment]  # the library declares it for the class
            **jsonpatch.JsonPatch.operations,
            "replace": _Replace,
            "copy": copying,
        }
        is_long = len(patch) > UNCOUNTED_OPERATIONS_MAX
        super().__init__(patch, _counting_pointer() if is_long else jsonpointer.JsonPointer)


def check(patch: Any) -> None:
    """Check the form of a patch. Raises MalformedJsonPatch, TooManyOperations."""
    if patch is None:
        return  # Go decodes null as no operations.
    if not isinstance(patch, list):
        raise MalformedJsonPatch(
            f"json: cannot unmarshal {json_type(patch)} into Go value of type []handlers.jsonPatchOp"
        )
    if len(patch) > OPERATIONS_MAX:
        raise TooManyOperations(len(patch))
    for operation in patch:
        if not isinstance(operation, dict):
            raise MalformedJsonPatch(
                f"json: cannot unmarshal {json_type(operation)} into Go value of type handlers.jsonPatchOp"
            )
        for field in ("op", "path", "from"):
            if not isinstance(value := operation.get(field, ""), str):
                raise MalformedJsonPatch(
                    f"json: cannot unmarshal {json_type(value)} into Go struct field jsonPatchOp.{field} of "
                    "type string"
                )


def apply(document: Any, patch: list[dict[str, Any]] | None) -> Any:
    """Returns the document with all operations applied. May change the document, even if it fails.

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
        RecursionError,  # too deep to be stored
    ) as error:
        raise CannotApply(str(error)) from error
