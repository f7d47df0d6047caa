"""Sets of field paths, in the form in which managedFields have them.

A set is a trie of dicts whose keys are path elements as FieldsV1 writes them, so that reading and writing one
costs nothing:

    {"f:data": {"f:k": {}}}                      .data.k
    {"f:data": {".": {}, "f:k": {}}}             .data and .data.k
    {"f:ports": {'k:{"port":80}': {"f:name": {}}}}  .ports[port=80].name
    {"f:finalizers": {'v:"a"': {}}}              .finalizers[="a"]

An element is in the set itself if nothing is below it, or `.` is. Sets are never changed: whoever needs
another one makes it, and parts are shared. Two sets are equal if they are equal as dicts, in any order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeAlias

import orjson

FieldSet: TypeAlias = dict[str, Any]

# An element with nothing below it, and the set without elements.
LEAF: Final[FieldSet] = {}
ITSELF: Final = "."
# Sets that somebody else made go no deeper; nothing that can be stored does.
DEPTH_MAX: Final = 200


class InvalidFieldSet(ValueError):
    """What is said to be a set of fields is none."""


# ---- algebra


def has_itself(node: FieldSet) -> bool:
    """Is the element that has this below it in the set, or only what is below it?"""
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
    """What is in `a` and not in `b`; `a` itself if that is all of it."""
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


def leaves(fields: FieldSet) -> FieldSet:
    """The elements of a set below which it has no others."""
    return {
        element: leaves(below) if below else LEAF for element, below in fields.items() if element != ITSELF
    }


def _below(node: FieldSet) -> FieldSet:
    if ITSELF not in node:
        return node
    return {element: below for element, below in node.items() if element != ITSELF}


def _node(is_in: bool, below: FieldSet) -> FieldSet:
    return {ITSELF: LEAF, **below} if is_in and below else below


# ---- paths


def paths(fields: FieldSet) -> Iterator[str]:
    """Every path of a set as messages have it: `.spec.ports[port=80,protocol="TCP"].name`."""
    for element, below in ordered(fields).items():
        if element == ITSELF:
            continue
        text = shown(element)
        if has_itself(below):
            yield text
        for path in paths(below):
            yield text + path


@lru_cache(maxsize=4096)
def shown(element: str) -> str:
    """An element as messages have it."""
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
    """The element of a list's item with these keys, which are in the order of their names.

    Raises TypeError for values that JSON does not have.
    """
    return "k:" + orjson.dumps(keys).decode()


def value_element(value: Any) -> str:
    """The element of a set's item."""
    return "v:" + orjson.dumps(value).decode()


# ---- order


class Ordered(FieldSet):
    """A set that is in the order in which Kubernetes writes it, and so is all that is below."""

    __slots__ = ()


def ordered(fields: FieldSet) -> FieldSet:
    """The same set in the order in which Kubernetes writes it."""
    if type(fields) is Ordered:
        return fields
    return {element: ordered(below) if (below := fields[element]) else LEAF for element in in_order(fields)}


def in_order(elements: Iterable[str]) -> list[str]:
    """Path elements in the order in which Kubernetes writes them."""
    by_text = sorted(elements)
    if (
        by_text and by_text[-1] > _AFTER_FIELDS
    ):  # Items have an order of their own, fields that of their text.
        by_text.sort(key=_rank)
    return by_text


_AFTER_FIELDS: Final = "g"


@lru_cache(maxsize=16_384)
def _rank(element: str) -> tuple[Any, ...]:
    """Itself, fields, items by keys, items by value, items by index."""
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
    """Numbers, texts, booleans, lists, objects, null."""
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


# ---- reading what others wrote


def parse(fields: Any) -> FieldSet:
    """A set as somebody else wrote it, brought into the form that this module makes.

    Elements of kinds that nobody knows are left out. Raises InvalidFieldSet.
    """
    return _parse(fields, 0)


def _parse(fields: Any, depth: int) -> FieldSet:
    if not isinstance(fields, dict):
        raise InvalidFieldSet("a set of fields is an object")
    if depth > DEPTH_MAX:
        raise InvalidFieldSet(f"a set of fields has more than {DEPTH_MAX} levels")
    parsed: FieldSet = {}
    for text, below in fields.items():
        if text == ITSELF:
            if depth:
                parsed[ITSELF] = LEAF
            continue
        element = canonical_quantity(text)
        if not element:
            continue
        node = _parse(below, depth + 1)
        if element in parsed:
            node = _node(
                has_itself(parsed[element]) or has_itself(node), union(_below(parsed[element]), _below(node))
            )
        parsed[element] = LEAF if node.keys() == {ITSELF} else node
    # An element with nothing below is in the set: `.` alone says the same, and is said this way.
    return parsed


@lru_cache(maxsize=16_384)
def canonical_quantity(text: str) -> str:
    """An element with its JSON in the one form that is compared; empty if nobody knows its kind.

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
                    raise InvalidFieldSet(f"the keys of an item are an object: {text[:100]}")
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
