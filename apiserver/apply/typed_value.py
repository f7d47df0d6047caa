"""Sets of fields from documents: what one states, and in what two differ."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

from apiserver.apply.field_set import ITSELF, LEAF, FieldSet, Ordered, in_order, shown
from apiserver.apply.type_defs import NoPathElement, TypeDef, path_element, text_key_element
from apiserver.vocabulary import Document

_ABSENT: Final = object()
# More are not reported: the answer has to end somewhere.
UNKNOWN_FIELDS_MAX: Final = 1_000


class SchemaMismatch(ValueError):
    """A document does not fit its schema. path: as in `.spec.ports[port=80].name`."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__()
        self.problem, self.path = problem, path

    def below(self, step: str) -> SchemaMismatch:
        """The same, seen from one level above."""
        self.path = step + self.path
        return self

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class UnknownField(SchemaMismatch):
    """A field that the schema does not have."""


class TooDeep(ValueError):
    """A document has more levels than can be followed."""


# ---- what a document states


def stated(document: Document, shape: TypeDef) -> FieldSet:
    """The fields that somebody who applies this document wants to own.

    Raises Untyped for what does not fit the schema or is in a list twice, UnknownField, TooDeep.
    """
    try:
        return _to_field_set(document, shape)
    except RecursionError:
        raise TooDeep("the object is nested too deeply") from None


def _to_field_set(value: Any, shape: TypeDef) -> FieldSet:
    """What is below the value's own path."""
    if value is None:
        return LEAF
    match shape.what:
        case "scalar":
            _check_scalar(value, shape)
            return LEAF
        case "struct":
            fields = _struct_fields(value, shape)
        case "map":
            if type(value) is not dict:
                raise SchemaMismatch(f"expected map, got &{{{_go_value(value)}}}")
            fields = _map_fields(value, shape.element)
        case "free":
            fields = _map_fields(value, shape.element) if type(value) is dict else LEAF
        case "list":
            fields = LEAF
            for index, child in enumerate(_items(value)):
                try:
                    _to_field_set(child, shape.element)
                except SchemaMismatch as error:
                    raise error.below(f"[{index}]") from None
        case _:
            fields = _item_fields(_items(value), shape)
    return LEAF if shape.is_whole else fields


def _struct_fields(value: Any, shape: TypeDef) -> FieldSet:
    if type(value) is not dict:
        raise SchemaMismatch(f"expected map, got &{{{_go_value(value)}}}")
    fields: FieldSet = {}
    for name, child in value.items():
        known = shape.fields.get(name)
        if known is None:
            raise UnknownField("field not declared in schema", f".{name}")
        element, child_def = known
        if child_def.what == "ignored":
            continue
        try:
            below = _to_field_set(child, child_def)
        except SchemaMismatch as error:
            raise error.below(f".{name}") from None
        # A struct is not owned itself, unless nothing is in it.
        is_leaf = child_def.is_whole or child_def.what == "free" or child is None or child == {}
        if below or is_leaf:
            fields[element] = {ITSELF: LEAF, **below} if below and child_def.is_undeclared else below
    return fields


def _map_fields(value: Document, element: TypeDef) -> FieldSet:
    fields: FieldSet = {}
    for name, child in value.items():
        try:
            below = _to_field_set(child, element)
        except SchemaMismatch as error:
            raise error.below(f".{name}") from None
        fields[f"f:{name}"] = {ITSELF: LEAF, **below} if below else LEAF
    return fields


def _item_fields(items: list[Any], shape: TypeDef) -> FieldSet:
    fields: FieldSet = {}
    for index, child in enumerate(items):
        try:
            element = path_element(child, shape)
        except (NoPathElement, TypeError) as error:
            raise SchemaMismatch(f"element {index}: {error}") from None
        if element in fields:
            raise SchemaMismatch(f"duplicate entries for key {shown(element)}")
        try:
            below = _to_field_set(child, shape.element)
        except SchemaMismatch as error:
            raise error.below(shown(element)) from None
        fields[element] = {ITSELF: LEAF, **below} if below else LEAF
    return fields


def _items(value: Any) -> list[Any]:
    if type(value) is not list:
        raise SchemaMismatch(f"expected list, got &{{{_go_value(value)}}}")
    return value


_EXPECTED: Final = {"numeric": "numeric (int or float)"}


def _check_scalar(value: Any, shape: TypeDef) -> None:
    if shape.types and type(value) not in shape.types:
        expected = _EXPECTED.get(shape.scalar, shape.scalar)
        raise SchemaMismatch(f"expected {expected}, got {_go_unstructured(value)}")


def _go_unstructured(value: Any) -> str:
    return f"&value.valueUnstructured{{Value:{_go_value(value)}}}"


def _go_value(value: Any) -> str:
    """A value as messages show it: shortened, and only by its kind if it is a long one."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "map[...]"
        case list():
            return "[...]"
    return str(value)[:100]


def prune_unknown(document: Document, shape: TypeDef) -> list[str]:
    """Take out of a document, in place, the fields that its schema does not have. Returns their paths.

    Raises TooDeep.
    """
    unknown: list[str] = []
    try:
        _prune_unknown(document, shape, "", unknown)
    except RecursionError:
        raise TooDeep("the object is nested too deeply") from None
    return unknown


def _prune_unknown(value: Any, shape: TypeDef, path: str, unknown: list[str]) -> None:
    what = shape.what
    if what in ("scalar", "ignored", "free"):
        return
    if type(value) is dict:
        dot = "." if path else ""
        if what == "struct":
            removed = []
            for name, child in value.items():
                known = shape.fields.get(name)
                if known is None:
                    removed.append(name)
                elif type(child) is dict or type(child) is list:
                    _prune_unknown(child, known[1], f"{path}{dot}{name}", unknown)
            for name in removed:
                del value[name]
                if len(unknown) < UNKNOWN_FIELDS_MAX:
                    unknown.append(f"{path}{dot}{name}")
        elif what == "map":
            for name, child in value.items():
                if type(child) is dict or type(child) is list:
                    _prune_unknown(child, shape.element, f"{path}{dot}{name}", unknown)
    elif type(value) is list:
        for index, child in enumerate(value):
            if type(child) is dict or type(child) is list:
                _prune_unknown(child, shape.element, f"{path}[{index}]", unknown)


# ---- in what two documents differ


class Comparison(NamedTuple):
    """changed: the fields that the newer one has with another value, or has alone. removed: the others."""

    changed: FieldSet
    removed: FieldSet

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed)


def compare(old: Document, new: Document, shape: TypeDef) -> Comparison:
    """The difference of two documents that have passed their schema. Equal parts cost nothing.

    Raises TooDeep.
    """
    changed: FieldSet = {}
    removed: FieldSet = {}
    try:
        _compare(old, new, shape, changed, removed)
    except (RecursionError, orjson.JSONEncodeError):
        raise TooDeep("the object is nested too deeply") from None
    return Comparison(changed, removed)


def _compare(old: Any, new: Any, shape: TypeDef, changed: FieldSet, removed: FieldSet) -> None:
    """Adds to the sets what is below this path. The values differ and are owned by their parts."""
    if shape.container is list:
        _compare_items(_keyed(old, shape), _keyed(new, shape), shape, changed, removed)
        return
    old_fields: Document = old if type(old) is dict else {}
    new_fields: Document = new if type(new) is dict else {}
    has_untyped = shape.has_untyped
    for name, value in new_fields.items():
        before = old_fields.get(name, _ABSENT)
        if before is _ABSENT:
            if (part := _part(name, shape)) is not None:
                element, child = part
                changed[element] = everything(value, child)
        elif before is value or (before == value and not (has_untyped and _differs_in_json(before, value))):
            continue
        elif (part := _part(name, shape)) is not None:
            _compare_both(*part, before, value, changed, removed)
    for name, before in old_fields.items():
        if name not in new_fields and (part := _part(name, shape)) is not None:
            element, child = part
            removed[element] = everything(before, child)


def _part(name: str, shape: TypeDef) -> tuple[str, TypeDef] | None:
    """Of a struct or map: the element and the shape of what has this name; None if nobody owns that."""
    if shape.what != "struct":
        return f"f:{name}", shape.element
    known = shape.fields.get(name)
    return None if known is None or known[1].what == "ignored" else known


def _differs_in_json(a: Any, b: Any) -> bool:
    """Are two values equal only because Python takes true for 1?"""
    if type(a) is str or orjson.dumps(a) == orjson.dumps(b):
        return False
    return _differs_in_types(a, b)


def _differs_in_types(a: Any, b: Any) -> bool:
    if type(a) is dict:
        return any(_differs_in_types(value, b[name]) for name, value in a.items())
    if type(a) is list:
        return any(map(_differs_in_types, a, b))
    return isinstance(a, bool) is not isinstance(b, bool)


def _compare_both(
    element: str, shape: TypeDef, old: Any, new: Any, changed: FieldSet, removed: FieldSet
) -> None:
    """Two values at one path, which differ."""
    if shape.is_whole:
        changed[element] = LEAF
        return
    if shape.what == "free" and not (type(old) is dict and type(new) is dict):
        # One of them is a value without parts, or both are.
        changed[element] = everything(new, shape)
        if type(old) is dict and old:
            removed[element] = _inside(everything(old, shape))
        return
    if not old and not new:
        changed[element] = LEAF  # one is null, the other is empty
        return
    changed_below: FieldSet = {}
    removed_below: FieldSet = {}
    if not old:
        changed_below = _inside(everything(new, shape))
    elif not new:
        removed_below = _inside(everything(old, shape))
    else:
        _compare(old, new, shape, changed_below, removed_below)
    if changed_below:
        changed[element] = changed_below
    if removed_below:
        removed[element] = removed_below


def _inside(fields: FieldSet) -> FieldSet:
    """A set in its order without what it is below."""
    inside = Ordered(fields)
    inside.pop(ITSELF, None)
    return inside


def _keyed(items: Any, shape: TypeDef) -> dict[str, list[Any]]:
    """The items of a list by their elements; stored lists may have some twice."""
    keyed: dict[str, list[Any]] = {}
    for index, item in enumerate(items if type(items) is list else ()):
        try:
            element = path_element(item, shape)
        except (NoPathElement, TypeError):
            element = f"i:{index}"  # owned by its place, since nothing else is known of it
        keyed.setdefault(element, []).append(item)
    return keyed


def _compare_items(
    old: dict[str, list[Any]],
    new: dict[str, list[Any]],
    shape: TypeDef,
    changed: FieldSet,
    removed: FieldSet,
) -> None:
    child = shape.element
    for element, after in new.items():
        before = old.get(element)
        if before == after and not (child.has_untyped and _differs_in_json(before, after)):
            continue
        if before is None:
            changed[element] = everything(after[0], child) if len(after) == 1 else LEAF
        elif len(before) == len(after) == 1:
            _compare_both(element, child, before[0], after[0], changed, removed)
        else:
            # Items with one key are owned together, as a whole.
            changed[element] = everything(after[0], child) if len(after) == 1 else LEAF
            gone = everything(before[0], child) if len(before) == 1 else LEAF
            if gone and len(after) > 1:
                removed[element] = _inside(gone)
    for element, before in old.items():
        if element not in new:
            removed[element] = everything(before[0], child) if len(before) == 1 else LEAF


def everything(value: Any, shape: TypeDef) -> FieldSet:
    """What is to stand at the element of a value that appears, or goes, as a whole; in order."""
    return Ordered(_parts(value, shape)) if value and not shape.is_whole else LEAF


def _parts(value: Any, shape: TypeDef) -> FieldSet:
    """A value that is not owned as a whole, and its parts. There is something in it."""
    if type(value) is not shape.container:
        return LEAF  # It will be refused, by those who know types.
    if shape.container is list:
        return _items_parts(value, shape)
    # Documents of a kind have the same names in many places, and often nothing but scalars below them.
    names = tuple(value)
    outline, inner = shape.alike.get(names) or shape.make_outline(names)
    if not inner:
        return outline
    fields = outline.copy()
    for name, element, child in inner:
        if part := value[name]:
            fields[element] = _parts(part, child)
    return fields


def _items_parts(items: list[Any], shape: TypeDef) -> FieldSet:
    fields = {ITSELF: LEAF}
    child = shape.element
    if len(shape.keys) == 1:
        # Nearly always each item has a text of its own, and these have the order of the elements.
        name = shape.keys[0][0]
        try:
            by_text = {item[name]: item for item in items}
            texts = sorted(by_text)
        except (KeyError, TypeError):
            texts = []  # An item has no key, or one that is no text.
        if len(texts) == len(items) and type(texts[0]) is str:
            for text in texts:
                fields[text_key_element(name, text)] = (
                    LEAF if child.is_whole else _parts(by_text[text], child)
                )
            return fields
    keyed = _keyed(items, shape)
    for element in in_order(keyed) if len(keyed) > 1 else keyed:
        item, *others = keyed[element]
        fields[element] = _parts(item, child) if item and not others and not child.is_whole else LEAF
    return fields
