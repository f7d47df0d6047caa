"""Strategic merge patch: a merge patch whose schema defines which lists are merged, and by which key.

Objects in the patch are merged into those of the document, null removes a field, and lists replace lists,
unless
the schema merges them: then items of the same key are merged, and lists of scalars are united. Directives
have other effects:

    $patch: delete | replace            deletes or replaces the object, or the list item, that contains it
    $retainKeys: [...]                  removes all other fields from the object that contains it
    $deleteFromPrimitiveList/f: [...]   removes these items from the sibling `f`
    $setElementOrder/f: [...]           orders these items of the sibling `f`

Values that are new in the document are added without objects that contain `$patch`. Numbers are equal only to
numbers of their type, as in Go. Apart from sorting, the time is linear in the sizes.

Source: k8s.io/apimachinery, pkg/util/strategicpatch/patch.go, release 1.36, StrategicMergeMapPatch. Row L06.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

from apiserver.golang.formatting import go_text, go_type
from apiserver.golang.quoting import go_quote
from apiserver.meta.vocabulary import Document
from apiserver.schema.structural import Schema, ValueKind

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETIONS: Final = "$deleteFromPrimitiveList"
ELEMENT_ORDER: Final = "$setElementOrder"

# A scalar, or the merge key of an item, with its type: true is not 1.
_Identity: TypeAlias = tuple[type, Any]
_NOTHING: Final = object()


class CannotMerge(ValueError):
    """A patch that contradicts the object, or itself. The message is for the client."""


class MalformedStrategicPatch(CannotMerge):
    """A directive does not have the right form."""


class ListOfLists(CannotMerge):
    def __init__(self) -> None:
        super().__init__("lists of lists are not supported")


def apply(document: Document, patch: Document, schema: Schema) -> Document:
    """Returns the document with the patch merged in. It may change both, even if it fails.

    The result shares parts with both; it is not checked by the schema. Raises CannotMerge.
    """
    try:
        return _merge_objects(document, patch, schema)
    except RecursionError:
        raise MalformedStrategicPatch("the patch is nested too deeply") from None


def _merge_objects(live: Document, patch: Document, schema: Schema) -> Document:
    if DIRECTIVE in patch:
        return _apply_directive(patch)
    _retain_keys(live, patch)
    _merge_ordered_lists(live, patch, schema)
    for key, value in patch.items():
        is_deletion = key.startswith(DELETIONS)
        if is_deletion:
            key = _sibling(key, DELETIONS, "primitive list")
        if value is None:
            live.pop(key, None)
            continue
        current: Any = live.get(key)
        if type(current) is not type(value):
            if not is_deletion:
                _put(live, key, _added(value))
        elif type(value) is dict:
            field = _field(schema, key)
            replaces = field.patch_strategy == "replace"
            live[key] = value if replaces else _merge_objects(current, value, field)
        elif type(value) is list:
            field = _field(schema, key)
            merges = is_deletion or field.patch_strategy == "merge"
            live[key] = _merge_lists(current, value, field, is_deletion=is_deletion) if merges else value
        else:
            live[key] = value
    return live


def _apply_directive(patch: Document) -> Document:
    """Returns the result for an object with `$patch`."""
    match patch[DIRECTIVE]:
        case "replace":
            del patch[DIRECTIVE]
            return patch
        case "delete":
            return {}
        case directive:
            raise _unknown_directive(directive, patch)


def _retain_keys(live: Document, patch: Document) -> None:
    if RETAIN_KEYS not in patch:
        return
    keys = patch.pop(RETAIN_KEYS)
    if type(keys) is not list or not all(type(key) is str for key in keys):
        raise MalformedStrategicPatch("invalid patch format of retainKeys")
    retained = frozenset(keys)
    for key, value in patch.items():
        if not (key in retained or value is None or key.startswith((DELETIONS, ELEMENT_ORDER))):
            raise MalformedStrategicPatch("invalid patch format of retainKeys")
    for key in live.keys() - retained:
        del live[key]


def _added(value: Any) -> Any:
    """Returns a value of a patch to be added: without nulls and without objects with `$patch`."""
    if type(value) is dict:
        for key in [key for key, child in value.items() if child is None]:
            del value[key]
        if DIRECTIVE in value:
            return _NOTHING
        for key, child in list(value.items()):
            _put(value, key, _added(child))
    elif type(value) is list:
        return [added for item in value if (added := _added(item)) is not _NOTHING]
    return value


def _put(document: Document, key: str, value: Any) -> None:
    if value is _NOTHING:
        document.pop(key, None)
    else:
        document[key] = value


# ---- lists


def _merge_lists(live: list[Any], patch: list[Any], field: Schema, *, is_deletion: bool = False) -> list[Any]:
    if not live and not patch:
        return live
    key = field.patch_merge_key
    if _type_of_items(live, patch) is not dict:
        if is_deletion:
            deleted = {_identity(item) for item in patch}
            return [item for item in live if _identity(item) not in deleted]
        if key:
            raise _wrong_type(dict, (live or patch)[0])
        merged = {_identity(item): item for item in (*live, *patch)}
        return _in_order(list(merged.values()), patch, live, _identity)
    assert field.element is not None
    if not key:
        raise CannotMerge(f"cannot merge lists without merge key for {_go_kind(field.element)}")
    live, patch = _without_directives(live, patch, key)
    merged_items = _merge_items(live, patch, key, field.element)
    return _in_order(merged_items, patch, live, _identity_by(key))


def _without_directives(live: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Apply the items with `$patch`; returns the remaining items of both lists."""
    plain: list[Any] = []
    deleted: set[_Identity] = set()
    replaces = False
    for item in patch:
        if DIRECTIVE not in item:
            plain.append(item)
            continue
        match item[DIRECTIVE]:
            case "delete":
                deleted.add(_key_of(item, key))
            case "replace":
                replaces = True
            case "merge":
                raise CannotMerge("merging lists cannot yet be specified in the patch")
            case directive:
                raise _unknown_directive(directive, item)
    if replaces:
        return plain, []
    if deleted:
        live = [item for item in live if _key_of(item, key) not in deleted]
    return live, plain


def _merge_items(live: list[Any], patch: list[Any], key: str, schema: Schema) -> list[Any]:
    merged = list(live)
    # Of items with the same key, as the ports 53/TCP and 53/UDP of a Service, the first one is merged with.
    places: dict[_Identity, int] = {}
    for place, item in enumerate(live):
        places.setdefault(_key_of(item, key), place)
    for item in patch:
        identity = _key_of(item, key)
        place = places.setdefault(identity, len(merged))
        if place < len(merged):
            merged[place] = _merge_objects(merged[place], item, schema)
        else:
            merged.append(item)
    return merged


def _merge_ordered_lists(live: Document, patch: Document, schema: Schema) -> None:
    """Merge the lists whose order the patch sets, and remove them from the patch."""
    for directive in [key for key in patch if key.startswith(ELEMENT_ORDER)]:
        order = patch.pop(directive)
        _require_list(order)
        name = _sibling(directive, ELEMENT_ORDER, "setElementOrder list")
        current: Any = live.get(name)
        changes: Any = patch.get(name)
        if current is not None:
            _require_list(current)
        if name in patch:
            _require_list(changes)
        field = _field(schema, name)
        if field.kind is not ValueKind.LIST:
            raise CannotMerge(f"expected slice or array type, but got: {_go_kind(schema)}")
        key = field.patch_merge_key
        if changes and order:
            _require_same_order(changes, order, key)
        if current is None and name not in patch:
            continue
        _type_of_items(current or [], changes or [])
        if name not in patch:
            merged = current
        elif current is None:
            merged = _added(changes)
        else:
            merges = field.patch_strategy == "merge"
            merged = _merge_lists(current, changes, field) if merges else changes
        live[name] = _in_order(merged, order, current or [], _identity_by(key) if key else _identity)
        patch.pop(name, None)


def _require_same_order(changes: list[Any], order: list[Any], key: str) -> None:
    """Require that the changed items are in the order list, and in its order. Raises CannotMerge."""
    identity = _identity_by(key) if key else _identity
    upcoming = iter(order)
    for item in changes:
        if type(item) is dict and DIRECTIVE in item:
            continue
        wanted = identity(item)
        if not any(identity(each) == wanted for each in upcoming):
            raise CannotMerge(
                f"The order in patch list:\n{go_text(changes)}\n doesn't match {ELEMENT_ORDER} list:\n"
                f"{go_text(order)}\n"
            )


def _in_order(
    merged: list[Any], order: Sequence[Any], live_order: Iterable[Any], identity: Callable[[Any], _Identity]
) -> list[Any]:
    """Sort items: those in `order` by it, and the others between them by their positions in `live_order`.

    An item in `order` that is not in `live_order` follows the one before it in `order`.
    """
    new_ranks, old_ranks = _ranks(order, identity), _ranks(live_order, identity)
    # Each with its new and its old rank.
    named: list[tuple[int, int, Any]] = []
    others: list[tuple[int, Any]] = []
    for item in merged:
        item_identity = identity(item)
        place = old_ranks.get(item_identity, -1)
        if item_identity in new_ranks:
            named.append((new_ranks[item_identity], place, item))
        else:
            others.append((place, item))
    named.sort(key=itemgetter(0))
    others.sort(key=itemgetter(0))
    result: list[Any] = []
    done = 0
    for _, place, item in named:
        while done < len(others) and others[done][0] < place:
            result.append(others[done][1])
            done += 1
        result.append(item)
    return result + [item for _, item in others[done:]]


def _ranks(items: Iterable[Any], identity: Callable[[Any], _Identity]) -> dict[_Identity, int]:
    ranks: dict[_Identity, int] = {}
    for rank, item in enumerate(items):
        ranks.setdefault(identity(item), rank)
    return ranks


# ---- identities and types


def _identity(scalar: Any) -> _Identity:
    if type(scalar) in (dict, list):
        raise CannotMerge(f"cannot compare values of type {_reflected(scalar)}")
    return type(scalar), scalar


def _identity_by(key: str) -> Callable[[Any], _Identity]:
    return lambda item: _key_of(item, key)


def _key_of(item: Any, key: str) -> _Identity:
    if type(item) is not dict:
        raise _wrong_type(dict, item)
    if key not in item:
        raise CannotMerge(f"map: {go_text(item)} does not contain declared merge key: {key}")
    return _identity(item[key])


def _type_of_items(live: list[Any], patch: list[Any]) -> type:
    """Returns the common type of the items of both lists. Raises CannotMerge."""
    types = {type(item) for item in (*live, *patch)}
    if not types:
        raise CannotMerge("no elements in any of the given slices")
    if len(types) > 1 or type(None) in types:
        raise CannotMerge(f"list element types are not identical: {go_text([live, patch])}")
    if list in types:
        raise ListOfLists
    return types.pop()


def _field(schema: Schema, name: str) -> Schema:
    """Returns the schema of a field that is an object or a list. Raises CannotMerge."""
    if schema.kind is ValueKind.MAP:
        raise CannotMerge("merging an object in json but data type is not struct, instead is: map")
    field = schema.fields.get(name)
    if field is None:
        raise CannotMerge(
            f"unable to find api field in struct {schema.struct_name} for the json field {go_quote(name)}"
        )
    return field


def _sibling(directive: str, prefix: str, description: str) -> str:
    """Returns the field that a directive applies to: `$setElementOrder/env` -> `env`."""
    before, slash, name = directive.partition("/")
    if before != prefix or not slash:
        raise MalformedStrategicPatch(f"invalid patch format of {description}")
    return name


def _require_list(value: Any) -> None:
    if type(value) is not list:
        raise _wrong_type(list, value)


def _wrong_type(expected: type, value: Any) -> CannotMerge:
    return CannotMerge(f"expected a {go_type(expected())}, but received a {_reflected(value)}")


def _reflected(value: Any) -> str:
    """Returns the Go type of a value as `%s` prints its `reflect.Type`."""
    return "%!s(<nil>)" if value is None else go_type(value)


def _unknown_directive(directive: Any, patch: Document) -> CannotMerge:
    return CannotMerge(f"unknown patch type: {go_text(directive)} in map: {go_text(patch)}")


def _go_kind(schema: Schema) -> str:
    match schema.kind:
        case ValueKind.STRING:
            return "string"
        case ValueKind.MAP:
            return "map"
        case _:
            return "struct"
