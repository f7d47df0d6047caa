"""Sets of field paths, in the form that managedFields have: FieldsV1.

A set is a trie of dicts whose keys are path elements as FieldsV1 writes them, so that decoding and encoding
one costs nothing:

    {"f:data": {"f:k": {}}}                      .data.k
    {"f:data": {".": {}, "f:k": {}}}             .data and .data.k
    {"f:ports": {'k:{"port":80}': {"f:name": {}}}}  .ports[port=80].name
    {"f:finalizers": {'v:"a"': {}}}              .finalizers[="a"]

An element itself is in the set if nothing is below it, or `.` is. Sets are never changed: functions return
new ones, which share parts with their arguments. Two sets are equal if they are equal as dicts, in any order.
Source: structured-merge-diff, fieldpath/set.go and fieldpath/serialize.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, TypeAlias

import orjson

from apiserver.meta.field_errors import truncated_path
from apiserver.meta.text_caches import text_cache

FieldSet: TypeAlias = dict[str, Any]

# An element with nothing below it, and the set without elements.
LEAF: Final[FieldSet] = {}
ITSELF: Final = "."
# Sets that clients send go no deeper; no object that can be stored does.
DEPTH_MAX: Final = 200


class InvalidFieldSet(ValueError):
    """A value is not a valid set of fields."""


# ---- algebra


def has_itself(node: FieldSet) -> bool:
    """Returns whether the set contains the element with this node itself, and not only elements below it."""
    return not node or ITSELF in node


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    if not a or a is b:
        return b
    if not b:
        return a
    joined = dict(a)
    for element, theirs in b.items():
        ours = joined.get(element)
        if ours is None:
            joined[element] = theirs
        elif ours is not theirs and ours != theirs:
            below = union(_below(ours), _below(theirs))
            joined[element] = _node(has_itself(ours) or has_itself(theirs), below)
    return joined


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """Returns the elements of `a` that are not in `b`; `a` itself if that is all of them."""
    if not b:
        return a
    left: FieldSet = {}
    is_same = True
    for element, ours in a.items():
        theirs = b.get(element)
        if theirs is None or element == ITSELF:
            left[element] = ours
            continue
        inner = _below(ours)
        below = difference(inner, _below(theirs))
        was_in = has_itself(ours)
        is_in = was_in and not has_itself(theirs)
        if was_in == is_in and below is inner:
            left[element] = ours
            continue
        is_same = False
        if is_in or below:
            left[element] = _node(is_in, below)
    return a if is_same else left


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    both: FieldSet = {}
    for element, ours in a.items():
        theirs = b.get(element)
        if theirs is None or element == ITSELF:
            continue
        below = intersection(_below(ours), _below(theirs))
        is_in = has_itself(ours) and has_itself(theirs)
        if is_in or below:
            both[element] = _node(is_in, below)
    return both


def _below(node: FieldSet) -> FieldSet:
    if ITSELF not in node:
        return node
    return {element: below for element, below in node.items() if element != ITSELF}


def _node(is_in: bool, below: FieldSet) -> FieldSet:
    return {ITSELF: LEAF, **below} if is_in and below else below


# ---- paths


def paths(fields: FieldSet) -> Iterator[str]:
    """Yields every path of a set as messages show it: `.spec.ports[port=80,protocol="TCP"].name`.

    Shorter paths come before those that continue them. Paths that are too long are cut.
    """
    elements = [(element, below) for element, below in ordered(fields).items() if element != ITSELF]
    for element, below in elements:
        if has_itself(below):
            yield truncated_path(element_text(element))
    for element, below in elements:
        if not below:
            continue
        text = truncated_path(element_text(element))
        for path in paths(below):
            yield truncated_path(text + path)


def element_text(element: str) -> str:
    """Returns a path element as messages show it: `.data`, `[port=80]`."""
    prefix, text = element[:2], element[2:]
    match prefix:
        case "f:":
            return f".{text}"
        case "k:":
            keys = ",".join(f"{name}={_value_text(value)}" for name, value in orjson.loads(text).items())
            return f"[{keys}]"
        case "v:":
            return f"[={_value_text(orjson.loads(text))}]"
    return f"[{text}]"


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return orjson.dumps(value).decode()


def key_element(keys: dict[str, Any]) -> str:
    """Returns the path element of a map list's item with these keys, which are sorted by name.

    Raises TypeError for values that JSON does not have.
    """
    return "k:" + orjson.dumps(keys).decode()


def value_element(value: Any) -> str:
    """Returns the path element of a set list's item."""
    return "v:" + orjson.dumps(value).decode()


# ---- order


class OrderedFieldSet(FieldSet):
    """A set in the order in which Kubernetes writes it, at all levels."""

    __slots__ = ()


def ordered(fields: FieldSet) -> FieldSet:
    """Returns the same set in the order in which Kubernetes writes it."""
    if type(fields) is OrderedFieldSet:
        return fields
    return {
        element: ordered(below) if (below := fields[element]) else LEAF for element in sorted_elements(fields)
    }


def sorted_elements(elements: Iterable[str]) -> list[str]:
    """Returns path elements in the order in which Kubernetes writes them."""
    by_text = sorted(elements)
    if by_text and by_text[-1] > _AFTER_FIELDS:  # Items are not ordered by their text, as fields are.
        are_short = max(map(len, by_text)) <= CACHED_LENGTH_MAX
        by_text.sort(key=_rank if are_short else _rank.__wrapped__)
    return by_text


# Longer path elements, as of a key of a megabyte, would stay in memory after their last use.
CACHED_LENGTH_MAX: Final = 512
_AFTER_FIELDS: Final = "g"


@text_cache(16_384)
def _rank(element: str) -> tuple[Any, ...]:
    """Returns the rank of a path element: itself, fields, items by keys, items by value, items by index."""
    text = element[2:]
    match element[:2]:
        case "f:":
            return (1, text)
        case "k:":
            keys = orjson.loads(text).items()
            return (2, *chain.from_iterable((name, *_value_rank(value)) for name, value in keys))
        case "v:":
            return (3, *_value_rank(orjson.loads(text)))
        case "i:":
            return (4, int(text))
    return (0,)


def _value_rank(value: Any) -> tuple[int, Any]:
    """Returns the rank of a value: numbers, strings, booleans, lists, objects, null."""
    match value:
        case bool():
            return (2, value)
        case int() | float():
            return (0, value)
        case str():
            return (1, value)
        case list():
            return (3, [_value_rank(each) for each in value])
        case dict():
            return (4, [(name, _value_rank(each)) for name, each in sorted(value.items())])
    return (5, 0)


# ---- parsing the sets of clients


def parse(fields: Any) -> FieldSet:
    """Parse a set that another encoder wrote into this module's canonical form.

    Elements with unknown prefixes are left out. Raises InvalidFieldSet.
    """
    return _parse(fields, 0)


def _parse(fields: Any, depth: int) -> FieldSet:
    if not isinstance(fields, dict):
        raise InvalidFieldSet("a field set must be an object")
    if depth > DEPTH_MAX:
        raise InvalidFieldSet(f"a field set has more than {DEPTH_MAX} levels")
    parsed: FieldSet = {}
    for text, below in fields.items():
        if text == ITSELF:
            if depth:
                parsed[ITSELF] = LEAF
            continue
        is_short = len(text) <= CACHED_LENGTH_MAX
        element = canonical_element(text) if is_short else canonical_element.__wrapped__(text)
        if not element:
            continue
        node = _parse(below, depth + 1)
        if element in parsed:
            node = _node(
                has_itself(parsed[element]) or has_itself(node), union(_below(parsed[element]), _below(node))
            )
        parsed[element] = LEAF if node.keys() == {ITSELF} else node
    # An element with nothing below is in the set: this is the canonical form of `.` alone.
    return parsed


@text_cache(16_384)
def canonical_element(text: str) -> str:
    """Returns the path element with its JSON in canonical form; empty if its prefix is unknown.

    Raises InvalidFieldSet.
    """
    value = text[2:]
    try:
        match text[:2]:
            case "f:":
                return text
            case "k:":
                keys = orjson.loads(value)
                if not isinstance(keys, dict):
                    raise InvalidFieldSet(f"the keys of an item must be an object: {text[:100]}")
                return key_element(dict(sorted(keys.items())))
            case "v:":
                return value_element(orjson.loads(value))
            case "i:":
                return f"i:{int(value)}"
            case prefix if prefix[1:] == ":":
                return ""
    except (ValueError, TypeError) as error:
        if isinstance(error, InvalidFieldSet):
            raise
        raise InvalidFieldSet(f"not a path element: {text[:100]}") from None
    raise InvalidFieldSet(f"not a path element: {text[:100]}")
