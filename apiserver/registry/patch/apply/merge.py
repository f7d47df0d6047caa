"""Merges an applied document into the live one, and removes fields that are no longer applied.

Source: structured-merge-diff, typed/merge.go and typed/remove.go.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any, Final

import orjson

from apiserver.meta.vocabulary import Document
from apiserver.registry.patch.apply.field_set import ITSELF, LEAF, FieldSet, has_itself
from apiserver.registry.patch.apply.type_defs import NoPathElement, TypeDef, path_element
from apiserver.registry.patch.apply.typed_value import DocumentTooDeep, may_be_object

_ABSENT: Final = object()


def merge(live: Document, applied: Document, type_def: TypeDef) -> Document:
    """Merge `applied` into `live`; returns `live` itself if that changes nothing.

    The result shares parts with both. Lists of the types `set` and `map` keep the live order; items in both
    have the applied order. Raises DocumentTooDeep.

    applied: a document that `typed_value.to_field_set` accepts.
    """
    try:
        merged = _merge(live, applied, type_def)
    except RecursionError:
        raise DocumentTooDeep from None
    assert isinstance(merged, dict)
    return merged


def _merge(live: Any, applied: Any, type_def: TypeDef) -> Any:
    if applied is live:
        return live
    if live is _ABSENT:
        return applied
    if type_def.is_atomic or type_def.kind == "ignored":
        return _unless_same(live, applied)
    if type_def.kind in ("map_list", "set_list"):
        if not live and not applied:
            return _unless_same(live, applied)
        return _merge_lists(live or [], applied or [], type_def)
    if type_def.kind == "untyped" and not (may_be_object(live) and may_be_object(applied)):
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
        if type(value) is str and before == value:
            continue
        after = _merge(before, value, child)
        if after is not before:
            if merged is live:
                merged = dict(live)
            merged[name] = after
    return merged


def _unless_same(live: Any, applied: Any) -> Any:
    """Returns the live value if the applied one is equal to it in JSON, so that unchanged parts are never
    copied.

    In Python 1, 1.0 and true are equal.
    """
    if type(live) is not type(applied) or live != applied:
        return applied
    if isinstance(live, (dict, list)) and orjson.dumps(live) != orjson.dumps(applied):
        return applied
    return live


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


# An apply removes what its manager owned before and no longer applies. It takes three steps, each on the
# whole object: remove all fields of the manager; add back those that any manager owns; and add back all that
# the first step removed beside the manager's own fields. So a field without an owner stays, unless it is
# inside of one that is removed.


def without_fields(whole: Document, fields: FieldSet, type_def: TypeDef, *, left: Any = None) -> Document:
    """Returns `whole` without the elements of a field set that `left` lacks, too.

    An object or list that loses all its contents stays, empty, unless it is in the set. The result shares
    parts with `whole`, or is `whole` if nothing is removed.

    left: a part of `whole`; None for nothing.
    """
    kept: Document = _without(whole, _ABSENT if left is None else left, fields, type_def, are_fields=True)
    return kept


def with_owned(left: Document, whole: Document, owned: FieldSet, type_def: TypeDef) -> Document:
    """Returns `left`, a part of `whole`, plus the elements of `whole` in a field set.

    The result shares parts with `whole`.
    """
    completed: Document = _without(whole, left, owned, type_def, are_fields=False)
    return completed


def _without(whole: Any, left: Any, fields: FieldSet, type_def: TypeDef, *, are_fields: bool) -> Any:
    """Returns a value without the elements that `left` lacks.

    are_fields: whether only elements in the field set are removed; else only those outside it.
    """
    if left is whole or not whole or type_def.is_atomic or (are_fields and not fields):
        return whole
    container = type_def.container
    if type(whole) is not container:
        return whole
    if container is list:
        return _items_without(whole, left, fields, type_def, are_fields=are_fields)
    remaining = left if type(left) is dict else {}
    kept = {}
    is_same = True
    is_struct, child = type_def.kind == "struct", type_def.element
    for name, value in whole.items():
        if is_struct:
            known = type_def.fields.get(name)
            if known is None or known[1].kind == "ignored":
                kept[name] = value
                continue
            element, child = known
        else:
            element = f"f:{name}"
        before = remaining.get(name, _ABSENT)
        node = fields.get(element)
        # A field of a struct is in the set if anything in it is; a key only if it is itself.
        is_in_set = node is not None and (is_struct or has_itself(node))
        if before is value:
            after = value
        elif (
            is_in_set is are_fields
            and not _is_in_field_set(before, child, is_key=not is_struct)
            and _is_in_field_set(value, child, is_key=not is_struct)
        ):
            is_same = False
            continue
        else:
            after = _without(value, before, node or LEAF, child, are_fields=are_fields)
            is_same = is_same and after is value
        kept[name] = after
    return whole if is_same else kept


def _items_without(
    whole: list[Any], left: Any, fields: FieldSet, type_def: TypeDef, *, are_fields: bool
) -> list[Any]:
    elements = [_element(item, type_def, index) for index, item in enumerate(whole)]
    items = left if type(left) is list else ()
    remaining = {_element(item, type_def, index): item for index, item in enumerate(items)}
    # Items with the same keys are owned together, as a whole.
    counts = Counter(elements) if len(set(elements)) < len(elements) else None
    kept = []
    for element, value in zip(elements, whole, strict=True):
        before = remaining.get(element, _ABSENT)
        node = fields.get(element)
        is_in_set = node is not None and has_itself(node)
        if before is _ABSENT and is_in_set is are_fields:
            continue
        if counts is None or counts[element] == 1:
            value = _without(value, before, node or LEAF, type_def.element, are_fields=are_fields)
        kept.append(value)
    is_same = len(kept) == len(whole) and all(map(operator.is_, kept, whole))
    return whole if is_same else kept


def _is_in_field_set(value: Any, type_def: TypeDef, *, is_key: bool = False) -> bool:
    """Returns whether a field with this value, or an element in it, is in the field set of its object.

    An empty list has no such element; an empty object counts itself, as keys of maps always do.
    """
    if value is _ABSENT:
        return False
    if is_key or type_def.is_atomic or value is None or type(value) is not type_def.container:
        return True
    if type(value) is list:
        return bool(value)
    if type_def.kind != "struct" or not value:
        return True
    return any(
        known is not None and _is_in_field_set(each, known[1])
        for name, each in value.items()
        for known in (type_def.fields.get(name),)
    )


def reconcile_with_schema(fields: FieldSet, type_def: TypeDef) -> FieldSet:
    """Returns a field set reconciled with a schema that has changed since.

    A manager that owned parts of a value that is atomic now owns the whole value (row F19). A value that is
    no longer atomic stays owned as a whole (row F20).
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
