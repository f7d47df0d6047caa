"""Which old value a new value replaces: what ratcheting and transition rules go by.

Fields and keys of maps belong to each other by their names, items of `map` lists by their keys, items of
lists that do not say their type by their places. Items of `atomic` and `set` lists belong to none.
Source: k8s.io/apiserver, pkg/cel/common/equality.go and maplist.go.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.schema.custom.json_schema import Extensions, JSONSchema, field_schema

_SCALARS: Final = frozenset({str, int, float, bool})


class Correlation:
    """A new value with the old one in its place. Asked for once, what is below is remembered."""

    __slots__ = ("_below", "_extensions", "_is_same", "_old_items", "new", "old", "schema")

    def __init__(self, new: Any, old: Any, schema: JSONSchema, extensions: Extensions) -> None:
        self.new, self.old, self.schema = new, old, schema
        self._extensions = extensions
        self._below: dict[str | int, Correlation | None] = {}
        self._is_same: bool | None = None
        self._old_items: dict[Any, Any] | None = None

    def field(self, name: str) -> Correlation | None:
        """Of a field, or of a key of a map; None where the old value has none, or no schema knows it."""
        if name not in self._below:
            self._below[name] = self._field(name)
        return self._below[name]

    def item(self, index: int) -> Correlation | None:
        """Of an item, by its index in the new list."""
        if index not in self._below:
            self._below[index] = self._item(index)
        return self._below[index]

    @property
    def is_unchanged(self) -> bool:
        """The values are equal; the order of a `map` list's items does not count."""
        if self._is_same is None:
            self._is_same = self._compare()
        return self._is_same

    def _field(self, name: str) -> Correlation | None:
        if type(self.new) is not dict or type(self.old) is not dict:
            return None
        schema = field_schema(self.schema, name)
        if schema is None or name not in self.new or name not in self.old:
            return None
        return Correlation(self.new[name], self.old[name], schema, self._extensions)

    def _item(self, index: int) -> Correlation | None:
        schema = self.schema.get("items")
        if type(self.new) is not list or type(self.old) is not list or schema is None:
            return None
        if (old := self._old_item(index)) is None:
            return None
        return Correlation(self.new[index], old, schema, self._extensions)

    def _old_item(self, index: int) -> Any:
        match self.schema.get(self._extensions.list_type):
            case "map":
                keys = self.schema.get(self._extensions.list_map_keys) or ()
                if self._old_items is None:
                    self._old_items = {}
                    for item in self.old:
                        if (key := _key_of(item, keys)) is not None:
                            self._old_items.setdefault(key, item)
                return self._old_items.get(_key_of(self.new[index], keys))
            case "atomic" | "set":
                return None
            case _:
                return self.old[index] if index < len(self.old) else None

    def _compare(self) -> bool:
        new, old = self.new, self.old
        if type(new) is dict and type(old) is dict:
            if len(new) != len(old):
                return False
            for name in new:
                child = self.field(name)
                if child is None:
                    # No schema knows it, or the old value does not have it.
                    if name not in old or not equal(new[name], old[name]):
                        return False
                elif not child.is_unchanged:
                    return False
            return True
        if type(new) is list and type(old) is list:
            if len(new) != len(old):
                return False
            for index in range(len(new)):
                child = self.item(index)
                if child is None:
                    return equal(new, old)
                if not child.is_unchanged:
                    return False
            return True
        return equal(new, old)


def equal(one: Any, other: Any) -> bool:
    """Equal to JSON: true is not 1."""
    if type(one) is not type(other) or one != other:
        return False
    if type(one) is dict:
        return all(equal(value, other[name]) for name, value in one.items())
    return type(one) is not list or all(map(equal, one, other))


def _key_of(item: Any, keys: tuple[str, ...] | list[str]) -> tuple[Any, ...] | None:
    """None where a key is missing, or is no scalar."""
    if type(item) is not dict:
        return None
    values = [item.get(name) for name in keys]
    if not all(type(value) in _SCALARS for value in values):
        return None
    return tuple((type(value), value) for value in values)
