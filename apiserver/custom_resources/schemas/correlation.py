"""Correlates new values with the old values that they replace, for ratcheting and transition rules.

Fields and keys of maps are correlated by their names, and items of `map` lists by their keys. Items of other
lists are not correlated, nor are fields without a schema.
Source: k8s.io/apiserver, pkg/cel/common/equality.go and maplist.go.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.custom_resources.schemas.json_schema import JSONSchema, field_schema
from apiserver.schema.extensions import Extensions

_SCALARS: Final = frozenset({str, int, float, bool})


class Correlation:
    """A new value and the old one that it replaces, with cached correlations of the values in them."""

    __slots__ = ("_below", "_extensions", "_is_same", "_old_items", "new", "old", "schema")

    def __init__(self, new: Any, old: Any, schema: JSONSchema, extensions: Extensions) -> None:
        self.new, self.old, self.schema = new, old, schema
        self._extensions = extensions
        self._below: dict[str | int, Correlation | None] = {}
        self._is_same: bool | None = None
        self._old_items: dict[Any, Any] | None = None

    def field(self, name: str) -> Correlation | None:
        """Returns the correlation of a field or map value; None if the old object lacks it or it has no
        schema.
        """
        if name not in self._below:
            self._below[name] = self._field(name)
        return self._below[name]

    def item(self, index: int) -> Correlation | None:
        """Returns the correlation of an item, by its index in the new list; None if no old item matches
        it.
        """
        if index not in self._below:
            self._below[index] = self._item(index)
        return self._below[index]

    @property
    def is_unchanged(self) -> bool:
        """Whether the values are equal, ignoring the order of a `map` list's items.

        An object with a field that has no schema always counts as changed, and so does a `map` list with an
        item that lacks a key.
        """
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
        if not self._is_map_list:
            return None
        keys = self.schema.get(self._extensions.list_map_keys) or ()
        if self._old_items is None:
            self._old_items = {}
            for item in self.old:
                if (key := _key_of(item, keys)) is not None:
                    self._old_items.setdefault(key, item)
        return self._old_items.get(_key_of(self.new[index], keys))

    @property
    def _is_map_list(self) -> bool:
        return self.schema.get(self._extensions.list_type) == "map"

    def _compare(self) -> bool:
        new, old = self.new, self.old
        if type(new) is dict and type(old) is dict:
            if len(new) != len(old):
                return False
            return all((child := self.field(name)) is not None and child.is_unchanged for name in new)
        if type(new) is list and type(old) is list and self._is_map_list:
            return len(new) == len(old) and all(
                (child := self.item(index)) is not None and child.is_unchanged for index in range(len(new))
            )
        return equal(new, old)


def equal(one: Any, other: Any) -> bool:
    """Returns whether two values are equal in JSON, where true is not 1."""
    if type(one) is not type(other) or one != other:
        return False
    if type(one) is dict:
        return all(equal(value, other[name]) for name, value in one.items())
    return type(one) is not list or all(map(equal, one, other))


def _key_of(item: Any, keys: tuple[str, ...] | list[str]) -> tuple[Any, ...] | None:
    """Returns the values of the keys, with their types; None if one is missing or is not a scalar."""
    if type(item) is not dict:
        return None
    values = [item.get(name) for name in keys]
    if not all(type(value) in _SCALARS for value in values):
        return None
    return tuple((type(value), value) for value in values)
