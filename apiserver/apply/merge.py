"""What somebody applies, merged into the object as it is; and taken out of it again."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any, Final

import orjson

from apiserver.apply.field_set import ITSELF, LEAF, FieldSet, has_itself
from apiserver.apply.type_defs import NoPathElement, TypeDef, path_element
from apiserver.apply.typed_value import TooDeep, everything
from apiserver.meta.quantity import InvalidQuantity, canonical_quantity
from apiserver.vocabulary import Document

_ABSENT: Final = object()


def merge(live: Document, applied: Document, shape: TypeDef) -> Document:
    """The live document with everything that is applied in it; itself if it has all of that already.

    It shares parts with both. applied: has passed `documents.stated`. Lists of the types `set` and `map` keep
    the order of the live one, and of the applied one where both have the items. Raises TooDeep.
    """
    try:
        merged = _merge(live, applied, shape)
    except RecursionError:
        raise TooDeep("the object is nested too deeply") from None
    assert isinstance(merged, dict)
    return merged


def _merge(live: Any, applied: Any, shape: TypeDef) -> Any:
    if applied is live:
        return live
    if live is _ABSENT:
        return _settled(applied, shape)
    if shape.is_whole or shape.what == "ignored":
        return _unless_same(live, _settled(applied, shape))
    if shape.what in ("items", "set"):
        if not live and not applied:
            return _unless_same(live, applied)
        return _merge_lists(live or [], applied or [], shape)
    if shape.what == "free" and not (isinstance(live, dict) and isinstance(applied, dict)):
        return _unless_same(live, applied)
    if not live and not applied:
        return _unless_same(live, applied)
    if not applied:
        return live  # null and empty say nothing of what is in it
    return _merge_fields(live or {}, applied, shape)


def _merge_fields(live: Document, applied: Document, shape: TypeDef) -> Document:
    merged = live
    is_struct = shape.what == "struct"
    for name, value in applied.items():
        if is_struct:
            known = shape.fields.get(name)
            if known is None:
                continue
            child = known[1]
        else:
            child = shape.element
        before = live.get(name, _ABSENT)
        # Texts are most of what there is.
        if type(value) is str and before == value and child.scalar != "quantity":
            continue
        after = _merge(before, value, child)
        if after is not before:
            if merged is live:
                merged = dict(live)
            merged[name] = after
    return merged


def _unless_same(live: Any, applied: Any) -> Any:
    """The live value if the applied one says the same: of what does not change nothing is to be made.

    Python takes 1, 1.0 and true for the same.
    """
    if type(live) is not type(applied) or live != applied:
        return applied
    if isinstance(live, (dict, list)) and orjson.dumps(live) != orjson.dumps(applied):
        return applied
    return live


def _settled(value: Any, shape: TypeDef) -> Any:
    """A value as the server will have it: quantities have many spellings, and only one that is compared."""
    if shape.scalar == "quantity" and value is not None:
        try:
            return canonical_quantity(f"{value}")
        except InvalidQuantity:
            return value  # Who checks the object will say so.
    if shape.what == "struct" and isinstance(value, dict) and not shape.is_whole:
        return {
            name: _settled(each, shape.fields[name][1]) if name in shape.fields else each
            for name, each in value.items()
        }
    if shape.what == "map" and isinstance(value, dict) and shape.element.scalar == "quantity":
        return {name: _settled(each, shape.element) for name, each in value.items()}
    if shape.what == "items" and isinstance(value, list):
        return [_settled(each, shape.element) for each in value]
    return value


def _merge_lists(live: list[Any], applied: list[Any], shape: TypeDef) -> list[Any]:
    """Live items keep their places; shared ones come in the order in which they are applied."""
    our_order = [(_element(item, shape, index), item) for index, item in enumerate(live)]
    ours = dict(our_order)
    theirs = {_element(item, shape, index): item for index, item in enumerate(applied)}
    applied_order = list(theirs)
    if len(ours) == len(live) and list(ours) == applied_order:
        merged = [_merge(ours[element], theirs[element], shape.element) for element in ours]
        return live if all(map(operator.is_, live, merged)) else merged
    counts = Counter(element for element, _ in our_order)
    repeated = {element for element, count in counts.items() if count > 1}
    shared = iter([element for element in applied_order if element in ours])
    awaited = next(shared, None)
    done: set[str] = set()
    merged = []

    def take(element: str) -> None:
        # Of items that are there several times, none is the one to merge with.
        before = ours.get(element, _ABSENT) if element not in repeated else _ABSENT
        merged.append(_merge(before, theirs[element], shape.element))
        done.add(element)

    i = j = 0
    while i < len(our_order) or j < len(applied_order):
        if i < len(our_order):
            element, item = our_order[i]
            if j < len(applied_order):
                if element == applied_order[j]:
                    take(element)
                    i, j = i + 1, j + 1
                    awaited = next(shared, None)
                    continue
                if element in theirs and awaited is not None and element != awaited:
                    i += 1  # shared, but not the next one: it comes where the applier wants it
                    continue
            if element not in theirs:
                merged.append(item)
                i += 1
                continue
            if element in done:
                i += 1
        if j < len(applied_order):
            element = applied_order[j]
            take(element)
            j += 1
            if element == awaited:
                awaited = next(shared, None)
    return merged


def _element(item: Any, shape: TypeDef, index: int) -> str:
    try:
        return path_element(item, shape)
    except (NoPathElement, TypeError):
        return f"i:{index}"


# ---- taking out


def prune(document: Document, last: FieldSet, owned: FieldSet, shape: TypeDef) -> Document:
    """The document without what its applier owned and has given up.

    last: what the applier owned before. owned: everything that anybody owns now, the applier too.
    An object or list that loses all that is in it becomes null, unless somebody owns it as such. Shares parts
    with `document`.
    """
    pruned = _prune(document, last, owned, shape)
    return pruned if isinstance(pruned, dict) else {}


def _prune(value: Any, last: FieldSet, owned: FieldSet, shape: TypeDef) -> Any:
    if not value or not last or shape.is_whole or shape.what == "ignored":
        return value
    if isinstance(value, dict) and shape.what in ("struct", "map", "free"):
        left: Document = {}
        is_same = True
        is_struct = shape.what == "struct"
        for name, each in value.items():
            known = shape.fields.get(name) if is_struct else None
            child = known[1] if known else shape.element
            result = each
            if not is_struct or known:
                result = _prune_element(f"f:{name}", each, last, owned, child, is_struct=is_struct)
            if result is not each:
                is_same = False
            if result is not _ABSENT:
                left[name] = result
        return value if is_same else (left or None)
    if isinstance(value, list) and shape.what in ("items", "set"):
        items = []
        is_same = True
        for index, each in enumerate(value):
            element = _element(each, shape, index)
            result = _prune_element(element, each, last, owned, shape.element, is_struct=False)
            if result is not each:
                is_same = False
            if result is not _ABSENT:
                items.append(result)
        return value if is_same else (items or None)
    return value


def _prune_element(
    element: str, value: Any, last: FieldSet, owned: FieldSet, shape: TypeDef, *, is_struct: bool
) -> Any:
    before = last.get(element)
    if before is None:
        return value
    now = owned.get(element)
    # A field of a struct belongs to whoever has anything in it; a key or an item only to who owns it itself.
    was_owned = is_struct or has_itself(before)
    is_owned = now is not None and (is_struct or has_itself(now))
    if was_owned and not is_owned and not (value == [] and not shape.is_whole):
        return _ABSENT
    left = _prune(value, before, now or LEAF, shape)
    if left is None and now is not None and has_itself(now):
        return type(value)()
    return left


def add_back_owned(left: Document, whole: Document, owned: FieldSet, shape: TypeDef) -> Document:
    """What is left of a document, with everything that is owned as it was in the whole.

    Returns `left` itself if it has all of that; shares parts with both.
    """
    restored: Document = _put_back(left, whole, owned, shape)
    return restored


def _put_back(left: Any, whole: Any, owned: FieldSet, shape: TypeDef) -> Any:
    """owned: has something of this value's."""
    if left == whole or shape.what == "ignored":
        return left
    if not shape.is_whole:
        if isinstance(left, dict) and isinstance(whole, dict):
            return _add_back_fields(left, whole, owned, shape)
        if isinstance(left, list) and isinstance(whole, list) and shape.what in ("items", "set"):
            return _add_back_items(left, whole, owned, shape)
    return whole if has_itself(owned) else left


def _add_back_fields(left: Document, whole: Document, owned: FieldSet, shape: TypeDef) -> Document:
    restored = left
    is_struct = shape.what == "struct"
    for name, value in whole.items():
        element = f"f:{name}"
        known = shape.fields.get(name) if is_struct else None
        if element not in owned or (is_struct and not known):
            continue
        child = known[1] if known else shape.element
        before = left.get(name, _ABSENT)
        after = _add_back_element(element, before, value, owned, child, is_struct=is_struct)
        if after is not before:
            if restored is left:
                restored = dict(left)
            restored[name] = after
    return restored


def _add_back_items(left: list[Any], whole: list[Any], owned: FieldSet, shape: TypeDef) -> list[Any]:
    remaining = {_element(item, shape, index): item for index, item in enumerate(left)}
    if len(remaining) < len(left):
        return left  # Some are there several times: nobody can tell which is whose.
    restored = []
    for index, value in enumerate(whole):
        element = _element(value, shape, index)
        item = remaining.pop(element, _ABSENT)
        if element in owned:
            item = _add_back_element(element, item, value, owned, shape.element, is_struct=False)
        if item is not _ABSENT:
            restored.append(item)
    restored += remaining.values()
    is_same = len(restored) == len(left) and all(map(operator.is_, left, restored))
    return left if is_same else restored


def _add_back_element(
    element: str, left: Any, whole: Any, owned: FieldSet, shape: TypeDef, *, is_struct: bool
) -> Any:
    if left is not _ABSENT:
        return _put_back(left, whole, owned[element], shape)
    # All of it has gone, and only what is owned of it comes back.
    return _prune_element(
        element, whole, {element: everything(whole, shape)}, owned, shape, is_struct=is_struct
    )


def extract(document: Document, fields: FieldSet, shape: TypeDef) -> Document:
    """The part of a document that a set of fields names."""
    part = _extract(document, fields, shape)
    return part if isinstance(part, dict) else {}


def _extract(value: Any, fields: FieldSet, shape: TypeDef) -> Any:
    if not value or shape.is_whole or not fields.keys() - {ITSELF}:
        return value
    if isinstance(value, dict) and shape.what in ("struct", "map", "free"):
        part: Document = {}
        for name, each in value.items():
            below = fields.get(f"f:{name}")
            if below is not None:
                known = shape.fields.get(name)
                part[name] = _extract(each, below, known[1] if known else shape.element)
        return part
    if isinstance(value, list) and shape.what in ("items", "set"):
        return [
            _extract(each, below, shape.element)
            for index, each in enumerate(value)
            if (below := fields.get(_element(each, shape, index))) is not None
        ]
    return value


def reconcile(fields: FieldSet, shape: TypeDef) -> FieldSet:
    """A set as the schema has it now: who owned parts of what is atomic by now owns it whole (row F19).

    What was atomic once and is not any more stays as it is (row F20).
    """
    if not fields or shape.what in ("free", "ignored", "scalar"):
        return fields
    changed: FieldSet = {}
    for element, below in fields.items():
        if not below or element == ITSELF:
            continue
        if shape.what == "struct":
            known = shape.fields.get(element[2:]) if element[:2] == "f:" else None
            if known is None:
                continue
            child = known[1]
        else:
            child = shape.element
        # What has no schema is atomic below a level, but what is stored is not changed for that.
        if child.is_whole:
            after = below if child.what in ("scalar", "free") else LEAF
        else:
            after = reconcile(below, child)
        if after is not below:
            changed[element] = after
    return {**fields, **changed} if changed else fields
