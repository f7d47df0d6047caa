"""Merge an applied document into the live one, and prune what is not applied any more.

Source: structured-merge-diff, typed/merge.go and typed/remove.go.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any, Final

import orjson

from apiserver.apply.field_set import ITSELF, LEAF, FieldSet, has_itself
from apiserver.apply.type_defs import NoPathElement, TypeDef, path_element
from apiserver.apply.typed_value import DocumentTooDeep, whole_field_set
from apiserver.meta.quantity import InvalidQuantity, canonical_quantity, quantity_text
from apiserver.vocabulary import Document

_ABSENT: Final = object()


def merge(live: Document, applied: Document, type_def: TypeDef) -> Document:
    """Merge `applied` into `live`; returns `live` itself if that changes nothing.

    The result shares parts with both. Lists of the types `set` and `map` keep the order of the live one;
    items that both have come in the order of the applied one. Raises DocumentTooDeep.

    applied: a document that `typed_value.to_field_set` accepts.
    """
    try:
        merged = _merge(live, applied, type_def)
    except RecursionError:
        raise DocumentTooDeep("the object is nested too deeply") from None
    assert isinstance(merged, dict)
    return merged


def _merge(live: Any, applied: Any, type_def: TypeDef) -> Any:
    if applied is live:
        return live
    if live is _ABSENT:
        return _canonicalised(applied, type_def)
    if type_def.is_atomic or type_def.kind == "ignored":
        return _unless_same(live, _canonicalised(applied, type_def))
    if type_def.kind in ("map_list", "set_list"):
        if not live and not applied:
            return _unless_same(live, applied)
        return _merge_lists(live or [], applied or [], type_def)
    if type_def.kind == "untyped" and not (isinstance(live, dict) and isinstance(applied, dict)):
        return _unless_same(live, applied)
    if not live and not applied:
        return _unless_same(live, applied)
    if not applied:
        return live  # null and empty values change nothing below
    return _merge_fields(live or {}, applied, type_def)


def _merge_fields(live: Document, applied: Document, type_def: TypeDef) -> Document:
    merged = live
    is_struct = type_def.kind == "struct"
    for name, value in applied.items():
        if is_struct:
            known = type_def.fields.get(name)
            if known is None:
                continue
            child = known[1]
        else:
            child = type_def.element
        before = live.get(name, _ABSENT)
        # Most values are strings.
        if type(value) is str and before == value and child.scalar != "quantity":
            continue
        after = _merge(before, value, child)
        if after is not before:
            if merged is live:
                merged = dict(live)
            merged[name] = after
    return merged


def _unless_same(live: Any, applied: Any) -> Any:
    """The live value if the applied one is equal to it in JSON, so that unchanged parts are never copied.

    Python takes 1, 1.0 and true for equal.
    """
    if type(live) is not type(applied) or live != applied:
        return applied
    if isinstance(live, (dict, list)) and orjson.dumps(live) != orjson.dumps(applied):
        return applied
    return live


def _canonicalised(value: Any, type_def: TypeDef) -> Any:
    """A value with its quantities in canonical form, in which they are compared."""
    if type_def.scalar == "quantity" and value is not None:
        try:
            return canonical_quantity(quantity_text(value))
        except InvalidQuantity:
            return value  # Validation will refuse it.
    if type_def.kind == "struct" and isinstance(value, dict) and not type_def.is_atomic:
        return {
            name: _canonicalised(each, type_def.fields[name][1]) if name in type_def.fields else each
            for name, each in value.items()
        }
    if type_def.kind == "map" and isinstance(value, dict) and type_def.element.scalar == "quantity":
        return {name: _canonicalised(each, type_def.element) for name, each in value.items()}
    if type_def.kind == "map_list" and isinstance(value, list):
        return [_canonicalised(each, type_def.element) for each in value]
    return value


def _merge_lists(live: list[Any], applied: list[Any], type_def: TypeDef) -> list[Any]:
    """Merge two lists by their items: live items keep their order, shared ones have that of `applied`."""
    live_order = [(_element(item, type_def, index), item) for index, item in enumerate(live)]
    ours = dict(live_order)
    theirs = {_element(item, type_def, index): item for index, item in enumerate(applied)}
    applied_order = list(theirs)
    if len(ours) == len(live) and list(ours) == applied_order:
        merged = [_merge(ours[element], theirs[element], type_def.element) for element in ours]
        return live if all(map(operator.is_, live, merged)) else merged
    counts = Counter(element for element, _ in live_order)
    repeated = {element for element, count in counts.items() if count > 1}
    shared = iter([element for element in applied_order if element in ours])
    awaited = next(shared, None)
    done: set[str] = set()
    merged = []

    def take(element: str) -> None:
        # Duplicates in the live list are not merged with.
        before = ours.get(element, _ABSENT) if element not in repeated else _ABSENT
        merged.append(_merge(before, theirs[element], type_def.element))
        done.add(element)

    i = j = 0
    while i < len(live_order) or j < len(applied_order):
        if i < len(live_order):
            element, item = live_order[i]
            if j < len(applied_order):
                if element == applied_order[j]:
                    take(element)
                    i, j = i + 1, j + 1
                    awaited = next(shared, None)
                    continue
                if element in theirs and awaited is not None and element != awaited:
                    i += 1  # shared, but not the next one: it comes where `applied` has it
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


def _element(item: Any, type_def: TypeDef, index: int) -> str:
    try:
        return path_element(item, type_def)
    except (NoPathElement, TypeError):
        return f"i:{index}"


# ---- pruning


def prune(document: Document, last: FieldSet, owned: FieldSet, type_def: TypeDef) -> Document:
    """The document without the fields that its applier owned before and nobody owns now.

    An object or list that loses all its contents becomes null, unless it is owned itself. The result shares
    parts with `document`.

    last: the fields that the applier owned before. owned: all fields that any manager owns now.
    """
    pruned = _prune(document, last, owned, type_def)
    return pruned if isinstance(pruned, dict) else {}


def _prune(value: Any, last: FieldSet, owned: FieldSet, type_def: TypeDef) -> Any:
    if not value or not last or type_def.is_atomic or type_def.kind == "ignored":
        return value
    if isinstance(value, dict) and type_def.kind in ("struct", "map", "untyped"):
        left: Document = {}
        is_same = True
        is_struct = type_def.kind == "struct"
        for name, each in value.items():
            known = type_def.fields.get(name) if is_struct else None
            child = known[1] if known else type_def.element
            result = each
            if not is_struct or known:
                result = _prune_element(f"f:{name}", each, last, owned, child, is_struct=is_struct)
            if result is not each:
                is_same = False
            if result is not _ABSENT:
                left[name] = result
        return value if is_same else (left or None)
    if isinstance(value, list) and type_def.kind in ("map_list", "set_list"):
        items = []
        is_same = True
        for index, each in enumerate(value):
            element = _element(each, type_def, index)
            result = _prune_element(element, each, last, owned, type_def.element, is_struct=False)
            if result is not each:
                is_same = False
            if result is not _ABSENT:
                items.append(result)
        return value if is_same else (items or None)
    return value


def _prune_element(
    element: str, value: Any, last: FieldSet, owned: FieldSet, type_def: TypeDef, *, is_struct: bool
) -> Any:
    before = last.get(element)
    if before is None:
        return value
    now = owned.get(element)
    # A field of a struct is owned by every manager that owns something in it; a key or an item only by those
    # that own it itself.
    was_owned = is_struct or has_itself(before)
    is_owned = now is not None and (is_struct or has_itself(now))
    if was_owned and not is_owned and not (value == [] and not type_def.is_atomic):
        return _ABSENT
    left = _prune(value, before, now or LEAF, type_def)
    if left is None and now is not None and has_itself(now):
        return type(value)()
    return left


def add_back_owned(left: Document, whole: Document, owned: FieldSet, type_def: TypeDef) -> Document:
    """Add the owned fields of `whole` that a pruned document lacks to it again.

    Returns `left` itself if it lacks none; the result shares parts with both.
    """
    restored: Document = _add_back(left, whole, owned, type_def)
    return restored


def _add_back(left: Any, whole: Any, owned: FieldSet, type_def: TypeDef) -> Any:
    """owned: the fields owned in this value; there is at least one."""
    if left == whole or type_def.kind == "ignored":
        return left
    if not type_def.is_atomic:
        if isinstance(left, dict) and isinstance(whole, dict):
            return _add_back_fields(left, whole, owned, type_def)
        if isinstance(left, list) and isinstance(whole, list) and type_def.kind in ("map_list", "set_list"):
            return _add_back_items(left, whole, owned, type_def)
    return whole if has_itself(owned) else left


def _add_back_fields(left: Document, whole: Document, owned: FieldSet, type_def: TypeDef) -> Document:
    restored = left
    is_struct = type_def.kind == "struct"
    for name, value in whole.items():
        element = f"f:{name}"
        known = type_def.fields.get(name) if is_struct else None
        if element not in owned or (is_struct and not known):
            continue
        child = known[1] if known else type_def.element
        before = left.get(name, _ABSENT)
        after = _add_back_element(element, before, value, owned, child, is_struct=is_struct)
        if after is not before:
            if restored is left:
                restored = dict(left)
            restored[name] = after
    return restored


def _add_back_items(left: list[Any], whole: list[Any], owned: FieldSet, type_def: TypeDef) -> list[Any]:
    remaining = {_element(item, type_def, index): item for index, item in enumerate(left)}
    if len(remaining) < len(left):
        return left  # There are duplicates, which cannot be told apart.
    restored = []
    for index, value in enumerate(whole):
        element = _element(value, type_def, index)
        item = remaining.pop(element, _ABSENT)
        if element in owned:
            item = _add_back_element(element, item, value, owned, type_def.element, is_struct=False)
        if item is not _ABSENT:
            restored.append(item)
    restored += remaining.values()
    is_same = len(restored) == len(left) and all(map(operator.is_, left, restored))
    return left if is_same else restored


def _add_back_element(
    element: str, left: Any, whole: Any, owned: FieldSet, type_def: TypeDef, *, is_struct: bool
) -> Any:
    if left is not _ABSENT:
        return _add_back(left, whole, owned[element], type_def)
    # All of the value was pruned; add back only what is owned in it.
    return _prune_element(
        element, whole, {element: whole_field_set(whole, type_def)}, owned, type_def, is_struct=is_struct
    )


def reconcile_with_schema(fields: FieldSet, type_def: TypeDef) -> FieldSet:
    """A field set reconciled with a schema that has changed since.

    A manager that owned parts of a value that is atomic now owns all of it (row F19). A value that was atomic
    and is not any more stays as it is (row F20).
    """
    if not fields or type_def.kind in ("untyped", "ignored", "scalar"):
        return fields
    changed: FieldSet = {}
    for element, below in fields.items():
        if not below or element == ITSELF:
            continue
        if type_def.kind == "struct":
            known = type_def.fields.get(element[2:]) if element[:2] == "f:" else None
            if known is None:
                continue
            child = known[1]
        else:
            child = type_def.element
        # Untyped values are atomic below a level, but their stored sets stay as they are.
        if child.is_atomic:
            after = below if child.kind in ("scalar", "untyped") else LEAF
        else:
            after = reconcile_with_schema(below, child)
        if after is not below:
            changed[element] = after
    return {**fields, **changed} if changed else fields
