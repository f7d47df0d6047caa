"""JSON Patch, RFC 6902, on documents that are changed in place.

Three rules are those of Kubernetes: `replace` adds a member that does not exist, a patch has at most 10,000
operations, and the total size of its copies is bounded. So are the number of values that are copied, since
ten copies of small values make a thousand of them, and the items moved in lists. All else takes time that is
linear in the sizes of patch and document. Row L03.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final

import orjson

from apiserver.golang.formatting import json_type

OPERATIONS_MAX: Final = 10_000
# kube-apiserver: JSONPatchMaxCopyBytes.
COPIED_BYTES_MAX: Final = 3 * 1024 * 1024
# Three megabytes of empty objects are a million values, each of which all later stages visit. The largest
# object that can be stored has fewer.
COPIED_VALUES_MAX: Final = 100_000
# Less than half a second's work: ten thousand changes of a list of thirty thousand items.
MOVED_ITEMS_MAX: Final = 300_000_000
# Indexes have fewer digits, and Python converts no number of thousands of them.
_INDEX: Final = re.compile("0|[1-9][0-9]{0,9}")
_INVALID_ESCAPE: Final = re.compile("~(?![01])")


class MalformedJsonPatch(ValueError):
    """The document is not a JSON patch. The message is for the client."""


class TooManyOperations(ValueError):
    def __init__(self, count: int) -> None:
        super().__init__(f"The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}")


class CannotApply(ValueError):
    """An operation cannot be applied to this document."""


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


def may_multiply(patch: list[dict[str, Any]] | None) -> bool:
    """Returns whether the patched document may be many times as large as patch and document together."""
    copies = 0
    for operation in patch or ():
        copies += operation.get("op") == "copy"
    return copies > 1


def apply(document: Any, patch: list[dict[str, Any]] | None) -> Any:
    """Returns the document with all operations applied. May change the document, even if it fails.

    patch: has passed `check`. The result shares parts with it. Raises CannotApply.
    """
    patched = _Patched(document)
    try:
        for operation in patch or ():
            patched.apply(operation)
    except RecursionError:
        raise CannotApply("a value is nested too deeply to be stored") from None
    return patched.document


class _Patched:
    """A document that is being patched, and what the patch may still spend."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._copied_bytes = 0
        self._copied_values = 0
        self._moved_items = 0

    def apply(self, operation: Mapping[str, Any]) -> None:
        """Raises CannotApply."""
        carry_out = _OPERATIONS.get(operation.get("op", ""))
        if carry_out is None:
            raise CannotApply(f"unexpected operation {operation.get('op')!r}")
        carry_out(self, operation)

    # ---- operations

    def _add(self, operation: Mapping[str, Any]) -> None:
        self._put(_steps(operation, "path"), _value(operation))

    def _remove(self, operation: Mapping[str, Any]) -> None:
        self._take(_steps(operation, "path"))

    def _replace(self, operation: Mapping[str, Any]) -> None:
        steps, value = _steps(operation, "path"), _value(operation)
        if not steps:
            self.document = value
            return
        parent, last = self._find(steps[:-1]), steps[-1]
        if isinstance(parent, dict):
            parent[last] = value
        else:
            parent[_index_in(parent, last)] = value

    def _move(self, operation: Mapping[str, Any]) -> None:
        source, target = _steps(operation, "from"), _steps(operation, "path")
        if source == target:
            self._find(source)
            return
        if target[: len(source)] == source:
            raise CannotApply("a value cannot be moved into itself")
        self._put(target, self._take(source))

    def _copy(self, operation: Mapping[str, Any]) -> None:
        source, target = _steps(operation, "from"), _steps(operation, "path")
        self._put(target, self._copy_of(self._find(source)))

    def _test(self, operation: Mapping[str, Any]) -> None:
        if not _is_equal(self._find(_steps(operation, "path")), _value(operation)):
            raise CannotApply("a value is not the one that is tested for")

    # ---- values and their places

    def _find(self, steps: list[str]) -> Any:
        """Returns the value at the end of a path. Raises CannotApply if there is none."""
        found = self.document
        for step in steps:
            if isinstance(found, dict):
                if step not in found:
                    raise CannotApply(f"missing member {step!r}")
                found = found[step]
            else:
                found = found[_index_in(found, step)]
        return found

    def _put(self, steps: list[str], value: Any) -> None:
        if not steps:
            self.document = value
            return
        parent, last = self._find(steps[:-1]), steps[-1]
        if isinstance(parent, dict):
            parent[last] = value
        elif last == "-" and isinstance(parent, list):
            parent.append(value)
        else:
            index = _index_in(parent, last, is_insertion=True)
            self._count_moved(parent)
            parent.insert(index, value)

    def _take(self, steps: list[str]) -> Any:
        """Removes a value from the document, and returns it."""
        if not steps:
            raise CannotApply("the whole document cannot be removed")
        parent, last = self._find(steps[:-1]), steps[-1]
        if isinstance(parent, dict):
            if last not in parent:
                raise CannotApply(f"missing member {last!r}")
            return parent.pop(last)
        index = _index_in(parent, last)
        self._count_moved(parent)
        return parent.pop(index)

    def _count_moved(self, items: list[Any]) -> None:
        """Count the items of a list that is about to change: all of them may be moved."""
        self._moved_items += len(items)
        if self._moved_items > MOVED_ITEMS_MAX:
            raise CannotApply(f"more than {MOVED_ITEMS_MAX} items of lists would have to move")

    def _copy_of(self, value: Any) -> Any:
        """Returns a copy of a value, if all copies together are within bounds: each may double the last."""
        self._copied_values += _values_in(value, COPIED_VALUES_MAX - self._copied_values)
        if self._copied_values > COPIED_VALUES_MAX:
            raise CannotApply(f"copies have more than {COPIED_VALUES_MAX} values in all")
        try:
            encoded = orjson.dumps(value)
        except TypeError:
            raise CannotApply("a value is nested too deeply to be copied") from None
        self._copied_bytes += len(encoded)
        if self._copied_bytes > COPIED_BYTES_MAX:
            raise CannotApply(f"copies add up to {self._copied_bytes} bytes; {COPIED_BYTES_MAX} are possible")
        return orjson.loads(encoded)


_OPERATIONS: Final[Mapping[str, Callable[[_Patched, Mapping[str, Any]], None]]] = {
    "add": _Patched._add,
    "remove": _Patched._remove,
    "replace": _Patched._replace,
    "move": _Patched._move,
    "copy": _Patched._copy,
    "test": _Patched._test,
}


def pointer_steps(pointer: str) -> list[str]:
    """Returns the steps of a JSON pointer, RFC 6901; none for the whole document. Raises CannotApply."""
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise CannotApply("a pointer begins with a slash")
    steps = pointer[1:].split("/")
    if "~" in pointer:
        if _INVALID_ESCAPE.search(pointer):
            raise CannotApply("a pointer has an escape that is neither ~0 nor ~1")
        return [step.replace("~1", "/").replace("~0", "~") for step in steps]
    return steps


def _steps(operation: Mapping[str, Any], field: str) -> list[str]:
    """Returns the steps of `path` or `from`. Raises CannotApply."""
    if field not in operation:
        raise CannotApply(f"an operation has no {field!r}")
    return pointer_steps(operation[field])


def _value(operation: Mapping[str, Any]) -> Any:
    """Raises CannotApply for an operation without a value."""
    if "value" not in operation:
        raise CannotApply("an operation has no 'value'")
    return operation["value"]


def _index_in(items: Any, step: str, *, is_insertion: bool = False) -> int:
    """Returns a step as the index of an item; an insertion may be behind the last. Raises CannotApply."""
    if not isinstance(items, list):
        raise CannotApply(f"{json_type(items)} has no {step!r}")
    if not _INDEX.fullmatch(step):
        raise CannotApply(f"{step!r} is not an index")
    index = int(step)
    if index >= len(items) + is_insertion:
        raise CannotApply(f"index {index} is out of range")
    return index


def _values_in(value: Any, most: int) -> int:
    """Returns how many values there are in a value, with itself; some number above `most` if more."""
    count = 0
    level: Iterable[Any] = (value,)
    while level:
        below: list[Any] = []
        for each in level:
            count += 1
            if isinstance(each, dict):
                below.append(each.values())
            elif isinstance(each, list):
                below.append(each)
        if count + sum(map(len, below)) > most:
            return most + 1
        level = [*chain.from_iterable(below)]
    return count


def _is_equal(one: Any, other: Any) -> bool:
    """Are two values equal as JSON? Numbers are by value, and a truth value is no number."""
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and len(one) == len(other)
            and all(name in other and _is_equal(value, other[name]) for name, value in one.items())
        )
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(_is_equal(item, other[index]) for index, item in enumerate(one))
        )
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)
