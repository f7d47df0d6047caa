"""Compares the fields of objects in two schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from apiserver.custom_resources.definitions.comparison.changes import Change, breaking, note, shown
from apiserver.custom_resources.definitions.comparison.rule_changes import rule_changes
from apiserver.custom_resources.definitions.comparison.value_changes import ANY, ValueComparison, category
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.meta.field_errors import field_below
from apiserver.schema.extensions import Extensions

_NAME: Final[JSONSchema] = {"type": "string"}
# The fields that every resource has, whatever its schema says.
_TYPE_FIELDS: Final[Mapping[str, JSONSchema]] = {"apiVersion": _NAME, "kind": _NAME}
_NAMES: Final[Mapping[str, JSONSchema]] = {"name": _NAME, "generateName": _NAME}
_META: Final = "metadata"
_ATOMIC: Final = "atomic"
# The kinds of breaking changes after which the server removes fields from objects.
PRUNING: Final = frozenset(
    {"FieldRemoved", "PreserveUnknownFieldsRemoved", "AdditionalPropertiesRemoved", "EmbeddedResourceRemoved"}
)
_GRANULAR: Final = "granular"


class SchemaComparison:
    """Compares schemas of the same objects."""

    def __init__(self, extensions: Extensions) -> None:
        self._extensions = extensions
        # For what is kept, but not described.
        self._anything: JSONSchema = {extensions.preserve_unknown_fields: True}

    def changes(self, old: JSONSchema, new: JSONSchema) -> list[Change]:
        """Returns the changes of objects whose root has these schemas."""
        return list(self._changes(old, new, "", is_root=True))

    def _changes(
        self, old: JSONSchema, new: JSONSchema, path: str, *, is_root: bool = False
    ) -> Iterator[Change]:
        if old == new:
            return
        values = ValueComparison(old, new, path, self._extensions)
        for change in values.type_changes():
            yield change
            if change.is_breaking:
                return
        yield from values.changes()
        yield from self._default(old, new, path)
        types = {category(old, self._extensions), category(new, self._extensions)}
        if types <= {"object", ANY}:
            yield from self._object(old, new, path, is_root=is_root)
        if types <= {"array", ANY}:
            yield from self._list(old, new, path)
        yield from rule_changes(old, new, path, self._extensions)

    def _default(self, old: JSONSchema, new: JSONSchema, path: str) -> Iterator[Change]:
        before, after = old.get("default"), new.get("default")
        if before == after and type(before) is type(after):
            return
        if before is None:
            yield note("DefaultAdded", path, f"Objects without the field get the default {shown(after)}.")
        elif after is None:
            yield breaking("DefaultRemoved", path, f"The default {shown(before)} is removed.")
        else:
            text = f"The default changes from {shown(before)} to {shown(after)}."
            yield breaking("DefaultChanged", path, text)

    # ---- objects

    def _object(self, old: JSONSchema, new: JSONSchema, path: str, *, is_root: bool) -> Iterator[Change]:
        embedded = self._extensions.embedded_resource
        is_resource = is_root or bool(old.get(embedded) and new.get(embedded))
        if not is_root:
            yield from self._embedded(old, new, path)
            yield from self._map_type(old, new, path)
        before = self._properties(old, is_resource=is_resource, is_root=is_root)
        after = self._properties(new, is_resource=is_resource, is_root=is_root)
        yield from self._required(old, new, path, implied={*_TYPE_FIELDS, _META} if is_resource else set())
        for name in dict.fromkeys((*before, *after)):
            yield from self._field(
                before.get(name) or self._others(old),
                after.get(name) or self._others(new),
                field_below(path, name),
            )
        yield from self._other_fields(self._others(old), self._others(new), path)
        yield from self._conflicts_of_defaults(old, new, path)

    def _properties(
        self, schema: JSONSchema, *, is_resource: bool, is_root: bool
    ) -> Mapping[str, JSONSchema]:
        """Returns the schemas of fields by name, with those that each resource has."""
        own: Mapping[str, JSONSchema] = schema.get("properties") or {}
        if not is_resource:
            return own
        meta: Mapping[str, Any] = own.get(_META) or {}
        names = {**(_NAMES if is_root else {}), **(meta.get("properties") or {})}
        described = {"type": "object", **meta, "properties": names}
        if not is_root:
            # The server prunes the metadata of embedded resources by itself.
            described[self._extensions.preserve_unknown_fields] = True
        return {**_TYPE_FIELDS, _META: described, **{name: own[name] for name in own if name != _META}}

    def _others(self, schema: JSONSchema) -> JSONSchema | None:
        """Returns the schema of fields that are not named; None if they are pruned."""
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping):
            return others
        is_kept = others is True or schema.get(self._extensions.preserve_unknown_fields)
        # Values of any type keep their fields only if the schema says so.
        return self._anything if is_kept else None

    def _field(self, old: JSONSchema | None, new: JSONSchema | None, path: str) -> Iterator[Change]:
        if old is None and new is not None:
            default = new.get("default")
            text = "" if default is None else f" Its default is {shown(default)}."
            yield note("FieldAdded", path, f"The field is added.{text}")
        elif old is not None and new is None:
            yield breaking("FieldRemoved", path, "The field is removed. The server prunes it from objects.")
        elif old is not None and new is not None:
            yield from self._changes(old, new, path)

    def _other_fields(self, old: JSONSchema | None, new: JSONSchema | None, path: str) -> Iterator[Change]:
        if old is None and new is not None:
            yield note("FieldsKept", path, "Fields that the schema does not name are kept.")
        elif old is not None and new is None:
            kind = "PreserveUnknownFieldsRemoved" if old is self._anything else "AdditionalPropertiesRemoved"
            text = "The server prunes fields that the schema does not name."
            yield breaking(kind, path, text)
        elif old is not None and new is not None:
            yield from self._changes(old, new, f"{path}[*]")

    def _required(self, old: JSONSchema, new: JSONSchema, path: str, implied: set[str]) -> Iterator[Change]:
        before, after = (dict.fromkeys(each.get("required") or ()) for each in (old, new))
        for name in after:
            if name in before or name in implied:
                continue
            schema = (new.get("properties") or {}).get(name) or {}
            if schema.get("default") is not None:
                text = "The field becomes required. Objects without the field get its default."
                yield note("RequiredAdded", field_below(path, name), text)
            else:
                text = "The field becomes required, and has no default."
                yield breaking("RequiredAdded", field_below(path, name), text)
        for name in before:
            if name not in after and name in (new.get("properties") or {}):
                yield note("RequiredRemoved", field_below(path, name), "The field becomes optional.")

    def _conflicts_of_defaults(self, old: JSONSchema, new: JSONSchema, path: str) -> Iterator[Change]:
        """Yields the added defaults with which objects may have too many of the fields."""
        before, after = old.get("properties") or {}, new.get("properties") or {}
        for name in after:
            if after[name].get("default") is None or (before.get(name) or {}).get("default") is not None:
                continue
            for keyword in ("oneOf", "not", "maxProperties"):
                limit = new.get(keyword)
                if limit is not None and (
                    len(after) > limit if keyword == "maxProperties" else _names_field(limit, name)
                ):
                    text = f"Objects with the added default may not match {keyword}."
                    yield breaking("DefaultAdded", field_below(path, name), text)

    def _embedded(self, old: JSONSchema, new: JSONSchema, path: str) -> Iterator[Change]:
        key = self._extensions.embedded_resource
        before, after = bool(old.get(key)), bool(new.get(key))
        if after and not before:
            text = "The values must be resources with a valid apiVersion, kind and metadata."
            yield breaking("EmbeddedResourceAdded", path, text)
        elif before and not after:
            kept = {*(new.get("properties") or ())}
            if self._others(new) is None and not kept.issuperset({*_TYPE_FIELDS, _META}):
                text = "The server prunes apiVersion, kind and metadata unless the schema names them."
                yield breaking("EmbeddedResourceRemoved", path, text)
            else:
                text = "The values need not be resources any more."
                yield note("EmbeddedResourceRemoved", path, text)

    def _map_type(self, old: JSONSchema, new: JSONSchema, path: str) -> Iterator[Change]:
        before, after = (each.get(self._extensions.map_type) or _GRANULAR for each in (old, new))
        if before == after:
            return
        if after == _ATOMIC:
            text = "Server-side apply replaces the whole object instead of merging its fields."
            yield breaking("MapTypeChanged", path, text)
        else:
            text = "Server-side apply merges the fields of the object instead of replacing it."
            yield note("MapTypeChanged", path, text)

    # ---- lists

    def _list(self, old: JSONSchema, new: JSONSchema, path: str) -> Iterator[Change]:
        yield from self._changes(self._items(old), self._items(new), f"{path}[*]")
        yield from self._list_type(old, new, path)

    def _items(self, schema: JSONSchema) -> JSONSchema:
        """Returns the schema of items. A list that keeps unknown fields keeps those of its items."""
        items = schema.get("items")
        if not isinstance(items, Mapping):
            return self._anything
        key = self._extensions.preserve_unknown_fields
        return {**items, key: True} if schema.get(key) else items

    def _list_type(self, old: JSONSchema, new: JSONSchema, path: str) -> Iterator[Change]:
        before, after = (each.get(self._extensions.list_type) or _ATOMIC for each in (old, new))
        if before != after:
            texts = {
                _ATOMIC: "Server-side apply replaces the whole list instead of merging its items.",
                "set": "Lists with equal items are refused. Server-side apply merges the items.",
                "map": "Lists with equal keys are refused. Server-side apply merges the items by their keys.",
            }
            change = f"The list type changes from {before} to {after}."
            yield breaking("ListTypeChanged", path, f"{change} {texts.get(after, '')}".rstrip())
        elif after == "map":
            keys = [each.get(self._extensions.list_map_keys) or [] for each in (old, new)]
            if set(keys[0]) != set(keys[1]):
                text = f"The keys of the items change from {', '.join(keys[0])} to {', '.join(keys[1])}."
                yield breaking("ListMapKeysChanged", path, text)


def _names_field(schema: Any, name: str) -> bool:
    """Returns whether schemas of alternatives name a field, in `required` or `properties`."""
    if isinstance(schema, Mapping):
        return name in schema or any(_names_field(each, name) for each in schema.values())
    if isinstance(schema, list):
        return any(_names_field(each, name) for each in schema)
    return bool(schema == name)
