"""Documents as typed values: makes the field set of one, and compares two."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import orjson

from apiserver.golang.formatting import go_type, number_text
from apiserver.golang.whole_numbers import has_whole, is_whole, make_whole
from apiserver.meta.field_errors import field_below, item_below, truncated_path
from apiserver.meta.vocabulary import Document
from apiserver.registry.patch.apply.field_set import (
    CACHED_LENGTH_MAX,
    ITSELF,
    LEAF,
    FieldSet,
    OrderedFieldSet,
    element_text,
    sorted_elements,
)
from apiserver.registry.patch.apply.type_defs import NoPathElement, TypeDef, path_element, text_key_element
from apiserver.schema.compile import UNKNOWN_FIELDS_MAX

_ABSENT: Final = object()


class SchemaMismatch(ValueError):
    """A document does not fit its schema. path: as in `.spec.ports[port=80].name`."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__()
        self.problem, self.path = problem, path

    def below(self, step: str) -> SchemaMismatch:
        """Put a step before the path; returns the error itself."""
        self.path = step + self.path
        return self

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class UnknownField(SchemaMismatch):
    """A document has a field that the schema does not declare.

    plain_path: as in `spec.ports[0].name`, if it is known.
    """

    def __init__(self, path: str, plain_path: str = "") -> None:
        super().__init__("field not declared in schema", path)
        self.plain_path = plain_path


def problems_text(problems: Sequence[SchemaMismatch]) -> str:
    """Returns all problems of a document, as Kubernetes lists them."""
    return f"{problems[0]}" if len(problems) == 1 else "\n  ".join(["errors:", *map(str, problems)])


class DocumentTooDeep(ValueError):
    """A document is nested too deeply for recursion."""

    def __init__(self) -> None:
        super().__init__("the object is nested too deeply")


# ---- the field set of a document


def to_field_set(document: Document, type_def: TypeDef) -> FieldSet:
    """Returns the fields that a manager owns after applying this document.

    Whole numbers with a fraction or an exponent, as 3.0, become integers in the document: in YAML, the format
    of applies, they are the same.

    Raises SchemaMismatch for a value that does not fit the schema or is in a list twice, UnknownField for a
    field that the schema does not declare, DocumentTooDeep.
    """
    try:
        try:
            return _to_field_set(document, type_def)
        except _WholeFloat:
            make_whole(document)
            return _to_field_set(document, type_def)
    except RecursionError:
        raise DocumentTooDeep from None


class _WholeFloat(Exception):
    """A document has a whole number that is not an integer in Python."""


def _to_field_set(value: Any, type_def: TypeDef) -> FieldSet:
    """Returns the field set of a value, relative to its own path."""
    if value is None:
        return LEAF
    match type_def.kind:
        case "scalar":
            if type(value) not in type_def.types:
                _check_scalar(value, type_def)
            return LEAF
        case "struct":
            fields = _struct_fields(value, type_def)
        case "map":
            if type(value) is not dict:
                raise SchemaMismatch(f"expected map, got &{{{_go_value(value)}}}")
            fields = _map_fields(value, type_def.element)
        case "untyped":
            if type(value) is dict:
                fields = _map_fields(value, type_def.element)
            else:
                fields = LEAF
                if type(value) is float or type(value) is list:
                    _require_integers(value)
        case "list":
            fields = LEAF
            for index, child in enumerate(_items(value)):
                try:
                    _to_field_set(child, type_def.element)
                except SchemaMismatch as error:
                    raise error.below(f"[{index}]") from None
        case _:
            fields = _item_fields(_items(value), type_def)
    return LEAF if type_def.is_atomic else fields


def _struct_fields(value: Any, type_def: TypeDef) -> FieldSet:
    if type(value) is not dict:
        raise SchemaMismatch(f"expected map, got &{{{_go_value(value)}}}")
    fields: FieldSet = {}
    for name, child in value.items():
        known = type_def.fields.get(name)
        if known is None:
            raise UnknownField(f".{name}")
        element, child_def = known
        if child_def.kind == "ignored":
            if child is not None and type(child) not in child_def.types:
                try:
                    _check_scalar(child, child_def)
                except SchemaMismatch as error:
                    raise error.below(f".{name}") from None
            continue
        try:
            below = _to_field_set(child, child_def)
        except SchemaMismatch as error:
            raise error.below(f".{name}") from None
        # A struct itself is not owned, unless it is empty.
        is_leaf = child_def.is_atomic or child_def.kind == "untyped" or child is None or child == {}
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


def _item_fields(items: list[Any], type_def: TypeDef) -> FieldSet:
    fields: FieldSet = {}
    for index, child in enumerate(items):
        try:
            element = path_element(child, type_def)
        except (NoPathElement, TypeError) as error:
            raise SchemaMismatch(f"element {index}: {error}") from None
        if element in fields:
            raise SchemaMismatch(f"duplicate entries for key {element_text(element)}")
        try:
            below = _to_field_set(child, type_def.element)
        except SchemaMismatch as error:
            raise error.below(element_text(element)) from None
        fields[element] = {ITSELF: LEAF, **below} if below else LEAF
    return fields


def _items(value: Any) -> list[Any]:
    if type(value) is not list:
        raise SchemaMismatch(f"expected list, got &{{{_go_value(value)}}}")
    return value


def _require_integers(value: float | list[Any]) -> None:
    """Raises _WholeFloat for a whole number that is not an integer in Python, in a value without a schema."""
    if has_whole(value):
        raise _WholeFloat


def _check_scalar(value: Any, type_def: TypeDef) -> None:
    """Raises SchemaMismatch for a value that is not of the Python types of its definition."""
    if type(value) is float and int in type_def.types:
        if is_whole(value):
            raise _WholeFloat
        return
    match type_def.scalar:
        case "untyped":
            return
        case "numeric":
            raise SchemaMismatch(f"expected numeric (int or float), got {go_type(value)}")
        case "string":
            raise SchemaMismatch(f"expected string, got &value.valueUnstructured{{Value:{_go_value(value)}}}")
    raise SchemaMismatch(f"expected {type_def.scalar}, got &{{{_go_value(value)}}}")


def _go_value(value: Any) -> str:
    """Returns a value as Go messages show it, in at most 100 characters; objects and lists without
    contents.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "map[...]"
        case list():
            return "[...]"
        case float():
            return number_text(value)
    return str(value)[:100]


def prune_unknown(document: Document, type_def: TypeDef) -> list[UnknownField]:
    """Remove from a document, in place, the fields that its schema does not declare. Returns them.

    Raises DocumentTooDeep.
    """
    unknown: list[UnknownField] = []
    try:
        _prune_unknown(document, type_def, _Place("", ""), unknown)
    except RecursionError:
        raise DocumentTooDeep from None
    return unknown


class _Place(NamedTuple):
    """The location of a value: its path by path elements, and the plain one."""

    path: str
    plain: str

    def field(self, name: str) -> _Place:
        path = field_below(self.path, name) if self.path else truncated_path(f".{name}")
        return _Place(path, field_below(self.plain, name))

    def item(self, index: int, item: Any, type_def: TypeDef) -> _Place:
        text = f"[{index}]"
        if type_def.kind not in ("list", "untyped"):
            with suppress(NoPathElement, TypeError):  # An item without its keys is refused later.
                text = element_text(path_element(item, type_def))
        return _Place(truncated_path(self.path + text), item_below(self.plain, index))


def _prune_unknown(value: Any, type_def: TypeDef, place: _Place, unknown: list[UnknownField]) -> None:
    kind = type_def.kind
    if kind in ("scalar", "ignored", "untyped"):
        return
    if type(value) is dict:
        if kind == "struct":
            removed = []
            for name, child in value.items():
                known = type_def.fields.get(name)
                if known is None:
                    removed.append(name)
                elif type(child) is dict or type(child) is list:
                    _prune_unknown(child, known[1], place.field(name), unknown)
            for name in removed:
                del value[name]
                if len(unknown) < UNKNOWN_FIELDS_MAX:
                    unknown.append(UnknownField(*place.field(name)))
        elif kind == "map":
            for name, child in value.items():
                if type(child) is dict or type(child) is list:
                    _prune_unknown(child, type_def.element, place.field(name), unknown)
    elif type(value) is list:
        for index, child in enumerate(value):
            if type(child) is dict or type(child) is list:
                _prune_unknown(child, type_def.element, place.item(index, child, type_def), unknown)


# ---- the comparison of two documents


class Comparison(NamedTuple):
    """The differences of a newer document from an older one.

    changed: the fields that were added or have another value. removed: the fields that only the older one
        has.
    """

    changed: FieldSet
    removed: FieldSet


def compare(old: Document, new: Document, type_def: TypeDef) -> Comparison:
    """Compare two documents that have passed their schema. Equal parts cost nothing.

    Raises DocumentTooDeep.
    """
    changed: FieldSet = {}
    removed: FieldSet = {}
    try:
        _compare(old, new, type_def, changed, removed)
    except (RecursionError, orjson.JSONEncodeError):
        raise DocumentTooDeep from None
    return Comparison(changed, removed)


def _compare(old: Any, new: Any, type_def: TypeDef, changed: FieldSet, removed: FieldSet) -> None:
    """Add the differences below this path to the sets. The values differ and are owned by their parts."""
    if type_def.container is list:
        _compare_items(_keyed(old, type_def), _keyed(new, type_def), type_def, changed, removed)
        return
    old_fields: Document = old if type(old) is dict else {}
    new_fields: Document = new if type(new) is dict else {}
    for name, value in new_fields.items():
        before = old_fields.get(name, _ABSENT)
        if before is _ABSENT:
            if (part := _part(name, type_def)) is not None:
                element, child = part
                changed[element] = whole_field_set(value, child)
        elif before is value or (
            before == value
            and (type(value) is str or not (type_def.has_untyped and _differs_in_json(before, value)))
        ):
            continue
        elif (part := _part(name, type_def)) is not None:
            _compare_both(*part, before, value, changed, removed)
    for name, before in old_fields.items():
        if name not in new_fields and (part := _part(name, type_def)) is not None:
            element, child = part
            removed[element] = whole_field_set(before, child)


def _part(name: str, type_def: TypeDef) -> tuple[str, TypeDef] | None:
    """Returns the path element and type definition of a field of a struct or map; None if it cannot be
    owned.
    """
    if type_def.kind != "struct":
        return f"f:{name}", type_def.element
    known = type_def.fields.get(name)
    return None if known is None or known[1].kind == "ignored" else known


def _differs_in_json(a: Any, b: Any) -> bool:
    """Returns whether two values are equal only in Python, where true equals 1."""
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
    element: str, type_def: TypeDef, old: Any, new: Any, changed: FieldSet, removed: FieldSet
) -> None:
    """Add the difference of two unequal values at one path to the sets."""
    if type_def.is_atomic:
        changed[element] = LEAF
        return
    if type_def.kind == "untyped" and not (may_be_object(old) and may_be_object(new)):
        changed[element] = whole_field_set(new, type_def)
        if type(old) is dict and old:
            removed[element] = _inside(whole_field_set(old, type_def))
        return
    if not old and not new:
        changed[element] = LEAF  # one is null, the other is empty
        return
    changed_below: FieldSet = {}
    removed_below: FieldSet = {}
    if not old:
        changed_below = _inside(whole_field_set(new, type_def))
    elif not new:
        removed_below = _inside(whole_field_set(old, type_def))
    else:
        _compare(old, new, type_def, changed_below, removed_below)
    if changed_below:
        changed[element] = changed_below
    if removed_below:
        removed[element] = removed_below


def may_be_object(value: Any) -> bool:
    """Returns whether a value may be an object: null is one without fields, with or without a schema."""
    return value is None or type(value) is dict


def _inside(fields: FieldSet) -> FieldSet:
    """Returns an ordered set without `.`."""
    inside = OrderedFieldSet(fields)
    inside.pop(ITSELF, None)
    return inside


def _keyed(items: Any, type_def: TypeDef) -> dict[str, list[Any]]:
    """Returns the items of a list by their path elements; stored lists may have duplicates."""
    keyed: dict[str, list[Any]] = {}
    for index, item in enumerate(items if type(items) is list else ()):
        try:
            element = path_element(item, type_def)
        except (NoPathElement, TypeError):
            element = f"i:{index}"  # an item without keys is owned by its index
        keyed.setdefault(element, []).append(item)
    return keyed


def _compare_items(
    old: dict[str, list[Any]],
    new: dict[str, list[Any]],
    type_def: TypeDef,
    changed: FieldSet,
    removed: FieldSet,
) -> None:
    child = type_def.element
    for element, after in new.items():
        before = old.get(element)
        if before == after and not (child.has_untyped and _differs_in_json(before, after)):
            continue
        if before is None:
            changed[element] = whole_field_set(after[0], child) if len(after) == 1 else LEAF
        elif len(before) == len(after) == 1:
            _compare_both(element, child, before[0], after[0], changed, removed)
        else:
            # Items with the same keys are owned together, as a whole.
            changed[element] = whole_field_set(after[0], child) if len(after) == 1 else LEAF
            before_fields = whole_field_set(before[0], child) if len(before) == 1 else LEAF
            if before_fields and len(after) > 1:
                removed[element] = _inside(before_fields)
    for element, before in old.items():
        if element not in new:
            removed[element] = whole_field_set(before[0], child) if len(before) == 1 else LEAF


def whole_field_set(value: Any, type_def: TypeDef) -> FieldSet:
    """Returns the ordered node for the path element of a value that is added or removed as a whole."""
    return OrderedFieldSet(_parts(value, type_def)) if value and not type_def.is_atomic else LEAF


def _parts(value: Any, type_def: TypeDef) -> FieldSet:
    """Returns the node of a value that is neither atomic nor empty."""
    if type(value) is not type_def.container:
        return LEAF  # Validation will refuse it.
    if type_def.container is list:
        return _items_parts(value, type_def)
    # Documents have the same names in many places, and often nothing but scalars below them.
    names = tuple(value)
    outline, inner = type_def.outlines.get(names) or type_def.make_outline(names)
    if not inner:
        return outline
    fields = outline.copy()
    for name, element, child in inner:
        if part := value[name]:
            fields[element] = _parts(part, child)
    return fields


def _items_parts(items: list[Any], type_def: TypeDef) -> FieldSet:
    fields = {ITSELF: LEAF}
    child = type_def.element
    if len(type_def.keys) == 1:
        # Nearly always the keys are distinct strings, which have the order of their path elements.
        name = type_def.keys[0][0]
        try:
            by_text = {item[name]: item for item in items}
            texts = sorted(by_text)
        except (KeyError, TypeError):
            texts = []  # An item has no key, or one that is no string.
        if len(texts) == len(items) and type(texts[0]) is str:
            are_short = max(map(len, texts)) <= CACHED_LENGTH_MAX
            element_of = text_key_element if are_short else text_key_element.__wrapped__
            for text in texts:
                fields[element_of(name, text)] = LEAF if child.is_atomic else _parts(by_text[text], child)
            return fields
    keyed = _keyed(items, type_def)
    for element in sorted_elements(keyed) if len(keyed) > 1 else keyed:
        item, *others = keyed[element]
        fields[element] = _parts(item, child) if item and not others and not child.is_atomic else LEAF
    return fields
