"""The JSON schemas of custom resources as trees: the schemas in a schema, their depth and number.

They are documents of `JSONSchemaProps` that have passed its schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

import orjson

from apiserver.meta.field_errors import Errors, forbidden
from apiserver.meta.vocabulary import Document

# The most levels of a schema, since schemas are walked recursively. The deepest known have 40 (whole pods in
# workflows).
DEPTH_MAX: Final = 100
# The most schemas of one definition, in all its versions. The largest known have 20,000.
SCHEMAS_MAX: Final = 50_000
# The most characters in the names on the way to a field; they are in the path of each error inside of it.
PATH_MAX: Final = 1_024


# Fields that hold other schemas, some by name. Some of them may hold something else instead.
_HOLDERS: Final = frozenset(
    {"not", "items", "additionalProperties", "additionalItems", "allOf", "anyOf", "oneOf"}
)
_HOLDERS_BY_NAME: Final = frozenset({"properties", "patternProperties", "definitions", "dependencies"})


# Fields that need no check; most schemas have no others.
_PLAIN: Final = frozenset(
    {
        *("type", "description", "title", "format", "enum", "required", "nullable", "multipleOf"),
        *("maxLength", "minLength", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"),
        *("maxItems", "minItems", "maxProperties", "minProperties", "externalDocs", "example"),
    }
)


def is_plain(schema: Document) -> bool:
    """Returns whether a schema has only a type, and nothing that needs a check: no schemas, defaults,
    extensions...
    """
    return _PLAIN.issuperset(schema) and "type" in schema


def children(schema: Document) -> list[tuple[str, Document]]:
    """Returns the schemas directly in a schema, each with its name, or an empty one."""
    found: list[tuple[str, Document]] = []
    if is_plain(schema):
        return found
    for field, held in schema.items():
        if field in _HOLDERS_BY_NAME:
            found += [(name, child) for name, child in held.items() if isinstance(child, dict)]
        elif field in _HOLDERS:
            if isinstance(held, dict):
                found.append(("", held))
            elif isinstance(held, list):
                found += [("", child) for child in held]
    return found


def nodes(schema: Document) -> list[Document]:
    """Returns a schema and all schemas in it."""
    found = [schema]
    for node in found:  # It grows meanwhile.
        found += [child for _, child in children(node)]
    return found


def validate_extent(schemas: Sequence[tuple[str, Document]]) -> Errors:
    """Checks that schemas, given with their paths, are neither too deep nor too many."""
    count = 0
    for path, schema in schemas:
        level, depth = [(0, schema)], 0
        while level:
            count, depth = count + len(level), depth + 1
            if depth > DEPTH_MAX:
                return [forbidden(path, f"schemas must not be nested more than {DEPTH_MAX} deep")]
            if count > SCHEMAS_MAX:
                return [forbidden(path, f"there must not be more than {SCHEMAS_MAX} schemas in a definition")]
            if max(level, key=itemgetter(0))[0] > PATH_MAX:
                text = f"names on the way to a field must not have more than {PATH_MAX} characters together"
                return [forbidden(path, text)]
            level = [(way + len(name), child) for way, node in level for name, child in children(node)]
    return []


def is_deep(value: object) -> bool:
    """Returns whether a value is nested more deeply than schemas may be."""
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def same(one: object, other: object) -> bool:
    """Returns whether two values are equal in JSON, where true is not 1.

    Values nested too deeply to be compared count as different.
    """
    try:
        return one == other and (one is other or _text(one) == _text(other))
    except (RecursionError, TypeError):
        return False


def _text(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
