"""JSON Patch, RFC 6902, applied by the jsonpatch library.

Three rules are those of Kubernetes: `replace` adds a member that does not exist, a patch has at most 10,000
operations, and the total size of its copies is bounded. So are the number of copied values, since ten copies
can multiply small values by a thousand, and the number of items moved in lists. Row L03.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import partial
from itertools import chain
from typing import Any, Final

import jsonpatch
import jsonpointer
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
_WITH_VALUE: Final = frozenset({"add", "replace", "test"})
# Indexes have fewer digits, and Python converts no number of thousands of them.
_INDEX: Final = re.compile("0|[1-9][0-9]{0,9}")


class MalformedJsonPatch(ValueError):
    """A document that is not a JSON patch. The message is for the client."""


class TooManyOperations(ValueError):
    def __init__(self, count: int) -> None:
        super().__init__(f"The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}")


class CannotApply(ValueError):
    """An operation that cannot be applied to this document."""


class TestFailed(CannotApply):
    """A value that is not equal to that of a `test` operation."""


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


def copies(patch: list[dict[str, Any]] | None) -> bool:
    """Returns whether operations copy or move values within the document."""
    return any(operation.get("op") in ("copy", "move") for operation in patch or ())


def may_multiply(patch: list[dict[str, Any]] | None) -> bool:
    """Returns whether the patched document may be many times as large as patch and document together."""
    copies = 0
    for operation in patch or ():
        copies += operation.get("op") == "copy"
    return copies > 1


def apply(document: Any, patch: list[dict[str, Any]] | None) -> Any:
    """Returns the document with all operations applied. May change the document, even if it fails.

    patch: has passed `check`. Raises CannotApply.
    """
    try:
        operations = _operations(patch or [])
    except CannotApply:
        raise
    except _FAILURES as error:
        raise CannotApply(str(error)) from error
    for operation in operations:
        try:
            document = operation.apply(document)
        except RecursionError:
            raise CannotApply("a value is nested too deeply to be stored") from None
        except CannotApply:
            raise
        except _FAILURES as error:
            raise CannotApply(_why(operation.operation, document) or str(error)) from error
    return document


_FAILURES: Final = (
    jsonpatch.JsonPatchException,
    jsonpointer.JsonPointerException,
    KeyError,
    TypeError,
    IndexError,
    ValueError,
)


def _why(operation: dict[str, Any], document: Any) -> str:
    """Returns why an operation does not fit a document, in Kubernetes' words; empty for any other reason.

    Source: github.com/evanphx/json-patch, v4.
    """
    op, path = operation["op"], operation["path"]
    if op in ("copy", "move"):
        where = operation.get("from")
        if not isinstance(where, str):
            return ""
        source = pointer_steps(where)
        if not _is_container(_at(document, source[:-1])) or _at(document, source) is _ABSENT:
            return f"{op} operation does not apply: doc is missing from path: {where}: missing value"
        if not _is_container(_at(document, pointer_steps(path)[:-1])):
            return f"{op} operation does not apply: doc is missing destination path: {path}: missing value"
        return ""
    steps = pointer_steps(path)
    if not steps:
        return ""
    parent, last = _at(document, steps[:-1]), steps[-1]
    if not _is_container(parent):
        shown = path if op == "replace" else f'"{path}"'
        return f"{op} operation does not apply: doc is missing path: {shown}: missing value"
    if op == "replace":
        return f"replace operation does not apply: doc is missing key: {path}: missing value"
    if isinstance(parent, list):
        why = f"Unable to access invalid index: {last}: invalid index referenced"
        return f"error in {op} for path: '{path}': {why}"
    if op == "remove":
        return f"error in remove for path: '{path}': Unable to remove nonexistent key: {last}: missing value"
    return ""


def _is_container(value: Any) -> bool:
    return isinstance(value, (dict, list))


_ABSENT: Final = object()


def _at(document: Any, steps: Iterable[str]) -> Any:
    for step in steps:
        if isinstance(document, dict):
            document = document.get(step, _ABSENT)
        elif isinstance(document, list) and _INDEX.fullmatch(step) and int(step) < len(document):
            document = document[int(step)]
        else:
            return _ABSENT
    return document


def pointer_steps(pointer: str) -> list[str]:
    """Returns the steps of a JSON pointer, RFC 6901; none for the whole document. Raises CannotApply."""
    try:
        steps: list[str] = jsonpointer.JsonPointer(pointer).parts
    except jsonpointer.JsonPointerException as error:
        raise CannotApply(str(error)) from None
    return steps


def _operations(patch: list[dict[str, Any]]) -> list[jsonpatch.PatchOperation]:
    """Returns the operations, ready to be applied. Raises the library's errors, and CannotApply."""
    _moved.set([0])
    made: Mapping[str, Callable[..., jsonpatch.PatchOperation]] = {
        "add": _Add,
        "remove": jsonpatch.RemoveOperation,
        "replace": _Replace,
        "move": _Move,
        "copy": partial(_Copy, _Copies()),
        "test": _Test,
    }
    found = []
    for each in patch:
        make = made.get(each.get("op", ""))
        if make is None:
            raise CannotApply(f"Unexpected kind: {each.get('op', 'unknown')}")
        if each["op"] in _WITH_VALUE and "value" not in each:
            raise CannotApply(f"{each['op']} operation has no value")
        found.append(make(each, pointer_cls=_Pointer))
    return found


class _Add(jsonpatch.AddOperation):
    """Adds the value itself, without a copy: the patch is not used again."""

    def apply(self, obj: Any) -> Any:
        return _put(self.pointer, obj, self.operation["value"])


class _Replace(jsonpatch.ReplaceOperation):
    def apply(self, obj: Any) -> Any:
        parent, last = self.pointer.to_last(obj)
        if isinstance(parent, dict) and last is not None:
            parent[last] = self.operation["value"]
            return obj
        return super().apply(obj)


class _Move(jsonpatch.MoveOperation):
    def apply(self, obj: Any) -> Any:
        source = self.pointer_cls(self.operation["from"])
        if self.pointer != source and self.pointer.contains(source):
            raise CannotApply("a value cannot be moved into itself")
        return super().apply(obj)


class _Test(jsonpatch.TestOperation):
    def apply(self, obj: Any) -> Any:
        steps = self.pointer.parts
        if steps and isinstance(parent := _at(obj, steps[:-1]), dict) and steps[-1] not in parent:
            raise TestFailed("the value to test does not exist")
        if not _is_equal(self.pointer.resolve(obj), self.operation["value"]):
            raise TestFailed("the value does not equal the tested one")
        return obj


class _Copies:
    """Limits all copies of one patch together: each may double the one before."""

    def __init__(self) -> None:
        self._bytes = 0
        self._values = 0

    def of(self, value: Any) -> Any:
        """Returns a copy of a value. Raises CannotApply."""
        self._values += _values_in(value, COPIED_VALUES_MAX - self._values)
        if self._values > COPIED_VALUES_MAX:
            raise CannotApply(f"copies have more than {COPIED_VALUES_MAX} values in total")
        try:
            encoded = orjson.dumps(value)
        except TypeError:
            raise CannotApply("a value is nested too deeply to be copied") from None
        self._bytes += len(encoded)
        if self._bytes > COPIED_BYTES_MAX:
            raise CannotApply(f"copies add up to {self._bytes} bytes; the limit is {COPIED_BYTES_MAX}")
        return orjson.loads(encoded)


class _Copy(jsonpatch.CopyOperation):
    def __init__(self, copies: _Copies, operation: Any, pointer_cls: Any) -> None:
        super().__init__(operation, pointer_cls=pointer_cls)
        self._copies = copies

    def apply(self, obj: Any) -> Any:
        source = self.pointer_cls(self.operation["from"])
        return _put(self.pointer, obj, self._copies.of(source.resolve(obj)))


def _put(pointer: jsonpointer.JsonPointer, document: Any, value: Any) -> Any:
    """Returns a document with a value put at a location, by the rules of RFC 6902's `add`."""
    parent, last = pointer.to_last(document)
    if last is None:
        return value
    if isinstance(parent, dict):
        parent[last] = value
    elif not isinstance(parent, list):
        raise CannotApply(f"{json_type(parent)} has no {last!r}")
    elif last == "-":
        parent.append(value)
    elif int(last) > len(parent):
        raise CannotApply(f"index {last} is out of range")
    else:
        parent.insert(int(last), value)
    return document


# How many items of lists the patch that is being applied may have moved: one number in a list.
_moved: Final[ContextVar[list[int]]] = ContextVar("moved")


class _Pointer(jsonpointer.JsonPointer):
    """Counts the items of changed lists, since all of them may move."""

    def to_last(self, doc: Any) -> Any:
        parent, last = super().to_last(doc)
        if isinstance(parent, list):
            moved = _moved.get()
            moved[0] += len(parent)
            if moved[0] > MOVED_ITEMS_MAX:
                raise CannotApply(f"the patch moves more than {MOVED_ITEMS_MAX} list items")
        return parent, last

    @classmethod
    def get_part(cls, doc: Any, part: str | int) -> Any:
        if isinstance(doc, list) and part != "-" and not _INDEX.fullmatch(str(part)):
            raise CannotApply(f"{part!r} is not an index")
        return super().get_part(doc, part)


def _values_in(value: Any, most: int) -> int:
    """Returns the number of values in a value, itself included; some number above `most` if more."""
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
    """Returns whether two values are equal as JSON: numbers by value, and booleans never equal numbers."""
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
