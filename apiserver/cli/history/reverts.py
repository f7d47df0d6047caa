"""Takes one change of an object back: merges the states before and after it with the live object. Pure.

Objects merge field by field. A list is one value, as nothing here knows its schema; but lists of the same
named items in the same order, as the containers of a Pod, merge item by item.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from apiserver.meta.vocabulary import Document
from apiserver.registry.patch.merge_patch import is_same

# Fields of metadata that the server sets itself: they never go back.
SERVER_OWNED: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
# The fields that name an item of a list: the first that all items have.
_NAMES: Final = ("name", "type")


class Item(NamedTuple):
    """An item of a list: that whose field `key` has a value."""

    key: str
    value: str


# Where a field is. Strings are keys of objects.
Path: TypeAlias = tuple[str | Item, ...]


class Revert(NamedTuple):
    """The result. value: what the live object becomes.

    reverted: the fields that differ from the live object.
    conflicts: the fields of the change that have got another value since. If there are any, the value must
        not be used.
    """

    value: Any
    reverted: tuple[Path, ...] = ()
    conflicts: tuple[Path, ...] = ()


class _Absent:
    """The value of a field that an object does not have."""


ABSENT: Final = _Absent()


def reverted(before: Document, after: Document, live: Document) -> Revert:
    """Returns the live object without the change from `before` to `after`; it shares parts with them."""
    return _field(without_owned(before), without_owned(after), live, ())


def without_owned(document: Document) -> Document:
    """Returns an object without the metadata that the server sets."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return document
    return {
        **document,
        "metadata": {key: value for key, value in metadata.items() if key not in SERVER_OWNED},
    }


def value_at(document: Any, path: Path) -> Any:
    """Returns the value of a field; ABSENT if there is none."""
    for step in path:
        if isinstance(step, Item):
            items = document if isinstance(document, list) else ()
            document = next(
                (each for each in items if isinstance(each, dict) and each.get(step.key) == step.value),
                ABSENT,
            )
        else:
            document = document.get(step, ABSENT) if isinstance(document, dict) else ABSENT
    return document


def differences(one: Any, other: Any, path: Path = ()) -> Iterator[Path]:
    """Yields the fields in which two values differ. A list is one value."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from differences(one.get(key, ABSENT), other.get(key, ABSENT), (*path, key))
    elif not is_equal(one, other):
        yield path


def is_equal(one: Any, other: Any) -> bool:
    """Returns whether two values, which may be ABSENT, are the same."""
    if one is ABSENT or other is ABSENT:
        return one is other
    return is_same(one, other)


def text_of(path: Path) -> str:
    """Returns a path for people: `spec.containers[name=web].image`."""
    steps = (f"[{step.key}={step.value}]" if isinstance(step, Item) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


def _field(before: Any, after: Any, live: Any, path: Path) -> Revert:
    if is_equal(before, after) or is_equal(live, before):
        return Revert(live)
    values = (before, after, live)
    is_unchanged = is_equal(live, after)
    if all(isinstance(each, dict) for each in values) or (not is_unchanged and _are_objects(values)):
        found = _object([{} if each is ABSENT else each for each in values], path, is_new=before is ABSENT)
        return found if found.reverted else found._replace(value=live)
    if is_unchanged:
        return Revert(before, (path,))
    if (key := _name_of_items(values)) is not None:
        return _list(values, key, path)
    return Revert(live, (), (path,))


def _are_objects(values: Sequence[Any]) -> bool:
    return all(each is ABSENT or isinstance(each, dict) for each in values)


def _object(values: Sequence[dict[str, Any]], path: Path, *, is_new: bool) -> Revert:
    """is_new: whether the change has made the object, which goes if nothing else is left in it."""
    before, after, live = values
    fields = {
        key: _field(before.get(key, ABSENT), after.get(key, ABSENT), live.get(key, ABSENT), (*path, key))
        for key in dict.fromkeys((*live, *before, *after))
    }
    value = {key: field.value for key, field in fields.items() if field.value is not ABSENT}
    return _joined(ABSENT if is_new and not value else value, fields.values())


def _list(values: Sequence[list[dict[str, Any]]], key: str, path: Path) -> Revert:
    items = [
        _field(before, after, live, (*path, Item(key, live[key])))
        for before, after, live in zip(*values, strict=True)
    ]
    return _joined([each.value for each in items], items)


def _joined(value: Any, parts: Collection[Revert]) -> Revert:
    return Revert(
        value,
        tuple(path for each in parts for path in each.reverted),
        tuple(path for each in parts for path in each.conflicts),
    )


def _name_of_items(values: Sequence[Any]) -> str | None:
    """Returns the field by which the items of lists are the same in all of them, in the same order."""
    if not all(isinstance(each, list) and each for each in values):
        return None
    for key in _NAMES:
        names = [[*_names(each, key)] for each in values]
        if None not in names[0] and len({*names[0]}) == len(names[0]) and names[0] == names[1] == names[2]:
            return key
    return None


def _names(items: list[Any], key: str) -> Iterator[str | None]:
    for each in items:
        name = each.get(key) if isinstance(each, dict) else None
        yield name if isinstance(name, str) else None
