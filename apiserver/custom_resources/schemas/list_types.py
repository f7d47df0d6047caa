"""Checks lists by their type: those of types `set` and `map` must not have duplicates.

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/listtype.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.custom_resources.schemas.paths import Path, bracketed
from apiserver.custom_resources.schemas.visits import DocumentCheck
from apiserver.meta.field_errors import FieldError, duplicate, invalid
from apiserver.schema.extensions import Extensions


def list_types(schema: JSONSchema, extensions: Extensions) -> DocumentCheck:
    """Returns the visits that find duplicates in lists of types `set` and `map`."""

    def check(value: Any, schema: JSONSchema, path: Path | None) -> Iterator[FieldError]:
        if type(value) is not list:
            return
        if schema[extensions.list_type] == "map":
            yield from _check_map(value, schema.get(extensions.list_map_keys) or (), path)
            return
        for index in _duplicates(value):
            yield duplicate(bracketed((path, index)), _ordered(value[index]))

    return DocumentCheck(schema, lambda each: each.get(extensions.list_type) in ("set", "map"), check)


def _check_map(items: list[Any], names: Iterable[str], path: Path | None) -> Iterator[FieldError]:
    for index, item in enumerate(items):
        if item is not None and type(item) is not dict:
            problem = "must be an object for an array of list-type map"
            yield invalid(bracketed((path, index)), item, problem)
            return
    keys = [{name: item[name] for name in names if item and name in item} for item in items]
    for index in _duplicates(keys):
        yield duplicate(bracketed((path, index)), _ordered(keys[index]))


def _duplicates(values: list[Any]) -> Iterator[int]:
    """Yields the indexes of values that occur for the second time."""
    seen: dict[Any, int] = {}
    for index, value in enumerate(values):
        key = (type(value), _canonical_text(value) if type(value) in (dict, list) else value)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            yield index


def _canonical_text(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # nested too deeply to be stored
        return repr(value).encode(errors="surrogatepass")


def _ordered(value: Any) -> Any:
    """Returns a value as messages show it, with its fields sorted by name."""
    return dict(sorted(value.items())) if type(value) is dict else value
